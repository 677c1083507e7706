//! What objects of a cluster ask for and this machine cannot run: it stays as it was, site by site and pool by pool, so
//! that nobody's mistake keeps others from what they ask for. Pure; who tries is `object_changes`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use tidegate_kubernetes::Merged;
use tidegate_model::{MapSettings, Pool, PoolName, Site, SiteAddress, Tcp};

/// A site or a pool that is served as it was, since what it is to be cannot run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Unit {
    Pool(PoolName),
    /// By its first address.
    Site(SiteAddress),
    /// By its port.
    Tcp(u16),
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unit::Pool(name) => write!(f, "pool {name}"),
            Unit::Site(address) => write!(f, "site {address}"),
            Unit::Tcp(port) => write!(f, "tcp :{port}"),
        }
    }
}

/// What runs of the objects, and what is not to be tried.
#[derive(Default)]
pub struct HeldBack {
    /// What runs.
    running: Merged,
    /// What objects ask for, before anything was held back.
    wanted: Merged,
    /// What cannot run, in which form, and why.
    unfit: BTreeMap<Unit, (Form, String)>,
    /// What is not tried just now, while it is found out what cannot run.
    untried: BTreeSet<Unit>,
}

#[derive(Debug, Clone, PartialEq)]
enum Form {
    Pool(Arc<Pool>),
    Site(Arc<Site>),
    Tcp(Tcp),
}

impl HeldBack {
    /// What objects ask for, but for what is held back, which is as it runs.
    pub fn apply(&mut self, wanted: Merged) -> Merged {
        self.wanted = wanted.clone();
        // Another form may run.
        let unfit = std::mem::take(&mut self.unfit);
        self.unfit = unfit.into_iter().filter(|(unit, (form, _))| form_of(&wanted, unit).as_ref() == Some(form)).collect();
        if self.unfit.is_empty() && self.untried.is_empty() {
            return wanted;
        }
        let is_held = |unit: &Unit| self.unfit.contains_key(unit) || self.untried.contains(unit);
        let site = |site: &Arc<Site>| {
            let held = is_held(&Unit::Site(name_of(site).clone()));
            if held { site_named(&self.running, name_of(site)).cloned() } else { Some(site.clone()) }
        };
        let pool = |pool: &Arc<Pool>| {
            let held = is_held(&Unit::Pool(pool.name.clone()));
            if held { pool_named(&self.running, &pool.name).cloned() } else { Some(pool.clone()) }
        };
        let sites: Vec<Arc<Site>> = wanted.sites.iter().filter_map(site).collect();
        let tcp = |tcp: &Tcp| {
            if is_held(&Unit::Tcp(tcp.port)) { tcp_at(&self.running, tcp.port).cloned() } else { Some(tcp.clone()) }
        };
        let tcp: Vec<Tcp> = wanted.tcp.iter().filter_map(tcp).collect();
        let mut pools: Vec<Arc<Pool>> = wanted.pools.iter().filter_map(pool).collect();
        self.complete(&sites, &tcp, &mut pools);
        Merged { sites: Arc::new(sites), pools: Arc::new(pools), tcp, maps: self.maps(), ..wanted }
    }

    /// Maps that run and those that are wanted: a site that stays as it is asks for what it has asked for.
    fn maps(&self) -> Arc<Vec<MapSettings>> {
        let all = self.running.maps.iter().chain(&*self.wanted.maps);
        let by_name: BTreeMap<&str, &MapSettings> = all.map(|map| (map.name.as_str(), map)).collect();
        Arc::new(by_name.into_values().cloned().collect())
    }

    /// Sites and names that are handed on bring the pools that they name, whatever is held back: as they run, else as
    /// they are to be.
    fn complete(&self, sites: &[Arc<Site>], tcp: &[Tcp], pools: &mut Vec<Arc<Pool>>) {
        let mut known: BTreeSet<PoolName> = pools.iter().map(|pool| pool.name.clone()).collect();
        let targets = tcp.iter().flat_map(|tcp| tcp.by_name.iter().map(|route| &route.to).chain(&tcp.otherwise));
        let of_tcp = targets.flat_map(|target| target.arms.iter().map(|arm| &arm.pool));
        for name in sites.iter().flat_map(|site| site.pools()).chain(of_tcp) {
            if known.contains(name) {
                continue;
            }
            if let Some(pool) = pool_named(&self.running, name).or_else(|| pool_named(&self.wanted, name)) {
                known.insert(name.clone());
                pools.push(pool.clone());
            }
        }
        pools.sort_by(|a, b| a.name.cmp(&b.name));
    }

    /// These run from now on.
    pub fn runs(&mut self, merged: Merged) {
        self.running = merged;
    }

    /// What is to be otherwise than it runs, and has not been found unfit.
    pub fn changed(&self) -> Vec<Unit> {
        let sites: HashMap<&SiteAddress, &Arc<Site>> = self.running.sites.iter().map(|site| (name_of(site), site)).collect();
        let pools: HashMap<&PoolName, &Arc<Pool>> = self.running.pools.iter().map(|pool| (&pool.name, pool)).collect();
        let pools = self.wanted.pools.iter().filter(|pool| pools.get(&pool.name).is_none_or(|runs| *runs != *pool));
        let sites = self.wanted.sites.iter().filter(|site| sites.get(name_of(site)).is_none_or(|runs| *runs != *site));
        let units = pools.map(|pool| Unit::Pool(pool.name.clone()));
        let units = units.chain(sites.map(|site| Unit::Site(name_of(site).clone())));
        let tcp = self.wanted.tcp.iter().filter(|tcp| tcp_at(&self.running, tcp.port) != Some(tcp));
        let units = units.chain(tcp.map(|tcp| Unit::Tcp(tcp.port)));
        units.filter(|unit| !self.unfit.contains_key(unit)).collect()
    }

    /// Holds these back until it is known whether they can run.
    pub fn leave_untried(&mut self, units: impl IntoIterator<Item = Unit>) {
        self.untried = units.into_iter().collect();
    }

    /// The unit cannot run as it is to be.
    pub fn note_unfit(&mut self, unit: Unit, why: String) {
        if let Some(form) = form_of(&self.wanted, &unit) {
            self.unfit.insert(unit, (form, why));
        }
    }

    /// What was found unfit is tried again with what comes next.
    pub fn forget_unfit(&mut self) {
        self.unfit.clear();
    }

    /// What is served as it was, and why.
    pub fn unfit(&self) -> impl Iterator<Item = (&Unit, &str)> {
        self.unfit.iter().map(|(unit, (_, why))| (unit, why.as_str()))
    }
}

fn form_of(merged: &Merged, unit: &Unit) -> Option<Form> {
    match unit {
        Unit::Pool(name) => pool_named(merged, name).cloned().map(Form::Pool),
        Unit::Site(name) => site_named(merged, name).cloned().map(Form::Site),
        Unit::Tcp(port) => tcp_at(merged, *port).cloned().map(Form::Tcp),
    }
}

fn tcp_at(merged: &Merged, port: u16) -> Option<&Tcp> {
    merged.tcp.iter().find(|tcp| tcp.port == port)
}

fn name_of(site: &Site) -> &SiteAddress {
    &site.addresses[0]
}

fn site_named<'m>(merged: &'m Merged, name: &SiteAddress) -> Option<&'m Arc<Site>> {
    merged.sites.iter().find(|site| name_of(site) == name)
}

fn pool_named<'m>(merged: &'m Merged, name: &PoolName) -> Option<&'m Arc<Pool>> {
    merged.pools.iter().find(|pool| pool.name == *name)
}

#[cfg(test)]
mod tests {
    use super::{HeldBack, Unit};
    use std::sync::Arc;
    use tidegate_kubernetes::Merged;
    use tidegate_model::{
        Balance, MapSettings, MapSource, Pool, PoolName, Route, RouteOptions, RouteRetry, Site, SiteAddress, Template, Terminal,
        Tls,
    };

    fn address(host: &str) -> SiteAddress {
        SiteAddress::parse(&format!("http://{host}:80")).expect("an address")
    }

    fn site(host: &str, pool: &str) -> Arc<Site> {
        let terminal = Terminal::Proxy { pool: PoolName(pool.into()), retry: RouteRetry::default(), rewrites_location: false };
        Arc::new(Site {
            origin: None,
            addresses: vec![address(host)],
            tls: Tls::default(),
            options: RouteOptions::default(),
            steps: Vec::new(),
            routes: vec![Route::of_all(terminal)],
        })
    }

    fn pool(name: &str, balance: Balance) -> Arc<Pool> {
        Arc::new(Pool { balance, ..Pool::new(PoolName(name.into()), Vec::new()) })
    }

    fn merged(sites: &[Arc<Site>], pools: &[Arc<Pool>]) -> Merged {
        Merged { sites: Arc::new(sites.to_vec()), pools: Arc::new(pools.to_vec()), ..Merged::default() }
    }

    fn told(merged: &Merged) -> Vec<String> {
        let sites = merged.sites.iter().map(|site| {
            let pools: Vec<_> = site.pools().map(ToString::to_string).collect();
            format!("{} to {}", site.addresses[0].host, pools.join("+"))
        });
        sites.chain(merged.pools.iter().map(|pool| format!("{} {:?}", pool.name, pool.balance))).collect()
    }

    #[test]
    fn what_is_held_back_stays_as_it_runs_with_the_pools_that_it_names() {
        let mut held_back = HeldBack::default();
        let before = merged(&[site("a", "old"), site("b", "b")], &[pool("b", Balance::Random), pool("old", Balance::Random)]);
        let runs = held_back.apply(before);
        held_back.runs(runs);
        assert_eq!(held_back.changed(), []);
        let wanted = merged(&[site("a", "new"), site("b", "b")], &[pool("b", Balance::Random), pool("new", Balance::Random)]);
        assert_eq!(told(&held_back.apply(wanted.clone())), told(&wanted));
        let of_pool = Unit::Pool(PoolName("new".into()));
        assert_eq!(held_back.changed(), [of_pool.clone(), Unit::Site(address("a"))]);
        held_back.note_unfit(Unit::Site(address("a")), "no".to_owned());
        assert_eq!(held_back.changed(), [of_pool]);
        let expected = ["a to old", "b to b", "b Random", "new Random", "old Random"];
        assert_eq!(told(&held_back.apply(wanted)), expected);
        // Another form of it is tried.
        let again = merged(&[site("a", "b"), site("b", "b")], &[pool("b", Balance::Random)]);
        assert_eq!(told(&held_back.apply(again)), ["a to b", "b to b", "b Random"]);
        assert_eq!(held_back.unfit().count(), 0);
    }

    #[test]
    fn a_site_that_stays_as_it_runs_keeps_what_it_asks() {
        let map = |name: &str| MapSettings {
            name: name.to_owned(),
            key: Template::default(),
            default: None,
            ignores_case: false,
            source: MapSource::Listed(Vec::new()),
        };
        let with_map = |name: &str, pool: &str| Merged { maps: Arc::new(vec![map(name)]), ..merged(&[site("a", pool)], &[]) };
        let names = |merged: &Merged| merged.maps.iter().map(|map| map.name.clone()).collect::<Vec<_>>();
        let mut held_back = HeldBack::default();
        let runs = held_back.apply(with_map("before", "old"));
        held_back.runs(runs);
        assert_eq!(names(&held_back.apply(with_map("now", "new"))), ["now"]);
        held_back.note_unfit(Unit::Site(address("a")), "no".to_owned());
        assert_eq!(names(&held_back.apply(with_map("now", "new"))), ["before", "now"]);
    }

    #[test]
    fn what_never_ran_is_left_out_and_a_site_brings_its_pool() {
        let mut held_back = HeldBack::default();
        let wanted = merged(&[site("a", "a"), site("b", "b")], &[pool("a", Balance::Random), pool("b", Balance::Random)]);
        held_back.apply(wanted.clone());
        assert_eq!(held_back.changed().len(), 4);
        held_back.leave_untried([Unit::Site(address("a")), Unit::Pool(PoolName("b".into()))]);
        assert_eq!(told(&held_back.apply(wanted)), ["b to b", "a Random", "b Random"]);
    }
}
