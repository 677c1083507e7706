//! Which processors each part of a run gets. Pure, but for asking the kernel which there are, and for this program
//! itself.

use std::str::FromStr;

use rustix::thread::CpuSet;

use crate::net::Error;
use crate::results::Cores;

/// `proxy=2-3,generator=1,backend=0`; parts that are not named are shared out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CoreWish {
    proxy: Option<Vec<usize>>,
    generator: Option<Vec<usize>>,
    backend: Option<Vec<usize>>,
}

/// The processors that this process may run on.
pub fn allowed() -> Result<Vec<usize>, Error> {
    let set = rustix::thread::sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect())
}

pub fn set_of(cores: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    for core in cores {
        set.set(*core);
    }
    set
}

/// This thread, and what it starts, on these processors for as long as this lives.
pub struct OnCores {
    before: CpuSet,
}

impl OnCores {
    pub fn pin(cores: &[usize]) -> Result<OnCores, Error> {
        let before = rustix::thread::sched_getaffinity(None)?;
        rustix::thread::sched_setaffinity(None, &set_of(cores))?;
        Ok(OnCores { before })
    }
}

impl Drop for OnCores {
    fn drop(&mut self) {
        // They were allowed before; if they are not any more, somebody else wants it so.
        rustix::thread::sched_setaffinity(None, &self.before).ok();
    }
}

/// The proxy takes the last ones, since the first serve most interrupts. A generator works about as hard as a proxy, a
/// backend far less.
pub fn assign(allowed: &[usize], wish: &CoreWish) -> Result<Cores, Error> {
    let fair = match allowed {
        [] => return Err("this process may run on no processor".into()),
        [only] => Cores { proxy: vec![*only], generator: vec![*only], backend: vec![*only] },
        [other, proxy] => Cores { proxy: vec![*proxy], generator: vec![*other], backend: vec![*other] },
        many => {
            let backends = (many.len() / 6).max(1);
            let proxies = (many.len() / 3).max(1);
            let (backend, rest) = many.split_at(backends);
            let (generator, proxy) = rest.split_at(rest.len() - proxies);
            Cores { proxy: proxy.to_vec(), generator: generator.to_vec(), backend: backend.to_vec() }
        }
    };
    let take = |wish: &Option<Vec<usize>>, fair: Vec<usize>| match wish {
        None => Ok(fair),
        Some(cores) => match cores.iter().find(|core| !allowed.contains(core)) {
            Some(core) => Err(format!("--cores: this process may not run on processor {core}, only on {allowed:?}")),
            None => Ok(cores.clone()),
        },
    };
    Ok(Cores {
        proxy: take(&wish.proxy, fair.proxy)?,
        generator: take(&wish.generator, fair.generator)?,
        backend: take(&wish.backend, fair.backend)?,
    })
}

/// What a reader must know of a machine that is too small.
pub fn warnings(cores: &Cores) -> Vec<String> {
    let shares = |left: &[usize], right: &[usize]| left.iter().any(|core| right.contains(core));
    let mut warnings = Vec::new();
    if shares(&cores.proxy, &cores.generator) || shares(&cores.proxy, &cores.backend) {
        warnings.push(
            "Too few cores: the proxy shares its processor with the generator or the backend, so no rate and no latency of it is known. \
             Only CPU time per request means something."
                .to_owned(),
        );
    } else if shares(&cores.generator, &cores.backend) {
        warnings.push(
            "Too few cores: generator and backend share a processor, and for fast proxies they are what is slow. Rates and latencies that \
             they limit are withheld; CPU time per request is not touched by it."
                .to_owned(),
        );
    }
    warnings
}

impl FromStr for CoreWish {
    type Err = String;

    fn from_str(text: &str) -> Result<CoreWish, String> {
        let mut wish = CoreWish::default();
        let mut target = None;
        // A part without a name is one more processor of the part before it: `proxy=2,3,generator=1`.
        for word in text.split(',') {
            let (name, list) = word.split_once('=').map_or((None, word), |(name, list)| (Some(name), list));
            if let Some(name) = name {
                target = Some(match name {
                    "proxy" => &mut wish.proxy,
                    "generator" => &mut wish.generator,
                    "backend" => &mut wish.backend,
                    _ => return Err(format!("`{name}` is none of proxy, generator, backend")),
                });
            }
            let target = target.as_mut().ok_or("write proxy=1,generator=0,backend=0")?;
            let cores = target.get_or_insert_default();
            // A processor named twice is still one.
            cores.extend(parse_range(list)?.filter(|core| !cores.contains(core)).collect::<Vec<_>>());
        }
        Ok(wish)
    }
}

fn parse_range(text: &str) -> Result<std::ops::RangeInclusive<usize>, String> {
    let parse = |digits: &str| digits.parse::<usize>().map_err(|_| format!("`{digits}` is not the number of a processor"));
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (parse(first)?, parse(last)?);
    if first > last || last >= CpuSet::MAX_CPU { Err(format!("`{text}` is no range of processors")) } else { Ok(first..=last) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_put_back_where_it_was() {
        let before = allowed().unwrap();
        let pinned = OnCores::pin(&before[..1]).unwrap();
        assert_eq!(allowed().unwrap(), before[..1]);
        drop(pinned);
        assert_eq!(allowed().unwrap(), before);
    }

    #[test]
    fn cores_are_shared_out() {
        let check = |allowed: &[usize], wish: &str, expected: [&[usize]; 3]| {
            let wish = if wish.is_empty() { CoreWish::default() } else { wish.parse().unwrap() };
            let cores = assign(allowed, &wish).unwrap();
            assert_eq!([&cores.proxy[..], &cores.generator, &cores.backend], expected, "{allowed:?} {wish:?}");
        };
        check(&[3], "", [&[3], &[3], &[3]]);
        check(&[0, 1], "", [&[1], &[0], &[0]]);
        check(&[0, 2, 5], "", [&[5], &[2], &[0]]);
        check(&[0, 1, 2, 3, 4, 5, 6, 7], "", [&[6, 7], &[1, 2, 3, 4, 5], &[0]]);
        check(&[0, 1], "proxy=1,1,generator=0,backend=0-0", [&[1], &[0], &[0]]);
        check(&[0, 1, 2, 3], "proxy=1-2", [&[1, 2], &[1, 2], &[0]]);
        check(&[0, 1, 2, 3], "proxy=3,2,backend=1,generator=0", [&[3, 2], &[0], &[1]]);
        assert!(assign(&[], &CoreWish::default()).is_err());
        assert!(assign(&[0, 1], &"proxy=7".parse().unwrap()).is_err());
    }

    #[test]
    fn wishes_that_are_none_are_refused() {
        for text in ["", "1", "proxy", "proxy=", "proxy=x", "proxy=3-1", "prox=1", "proxy=99999"] {
            assert!(text.parse::<CoreWish>().is_err(), "{text}");
        }
    }

    #[test]
    fn too_few_cores_are_said() {
        let of = |proxy, generator, backend| {
            warnings(&Cores { proxy: vec![proxy], generator: vec![generator], backend: vec![backend] })
        };
        assert!(of(0, 0, 0)[0].contains("Only CPU time"));
        assert!(of(1, 0, 0)[0].contains("withheld"));
        assert_eq!(of(2, 1, 0), Vec::<String>::new());
    }
}
