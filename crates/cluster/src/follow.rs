//! One kind of objects, followed for ever: what `course` says is asked, what `page` reads is told.

use crate::client::Client;
use crate::course::{Ask, Course, Standing, WATCH_IDLE_MAX, WATCH_LASTS};
use crate::fault::Fault;
use crate::kind::{Kind, Part};
use crate::news::{KindNews, Told};
use crate::object::Watched;
use crate::page::{Found, Line, Unreadable};
use crate::refusals::Refusals;
use crate::texts::Texts;
use std::cell::RefCell;
use std::convert::Infallible;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How often it is looked whether what is watched may still be seen: the server looks at rights when a watch begins,
/// and at no other time. It costs the server the metadata of one object.
const LOOKED_EVERY: Duration = Duration::from_secs(10);
/// After it was refused once: a server of several that starts refuses what it allows.
const LOOKED_AGAIN: Duration = Duration::from_secs(1);

/// Tells all objects of a kind, and then what happens to them. It ends by being dropped.
///
/// A list that is not whole is told of nothing.
pub async fn follow<T: Watched>(client: &Client, part: Part, texts: Rc<RefCell<Texts>>, tell: impl Fn(&Part, Told)) -> Infallible
where
    Told: From<KindNews<T>>,
{
    let (namespace, course) = (part.as_deref(), Course::default());
    let mut following = FollowedKind::<T> { client, namespace, texts, found: Vec::new(), unreadable: Vec::new(), course };
    let tell = |news| tell(&part, Told::from(news));
    loop {
        match following.course.ask(Instant::now()) {
            Ask::Rest { until } => tokio::time::sleep_until(until.into()).await,
            Ask::Page { next } => following.take_page(next.as_deref(), &tell).await,
            Ask::Version => following.look_at_version(&tell).await,
            Ask::Watch { from } => following.watch(&from, &tell).await,
        }
    }
}

struct FollowedKind<'c, T> {
    client: &'c Client,
    namespace: Option<&'c str>,
    texts: Rc<RefCell<Texts>>,
    /// Of the pages so far.
    found: Vec<Found<T>>,
    unreadable: Vec<Unreadable>,
    course: Course,
}

impl<T: Watched> FollowedKind<'_, T> {
    async fn take_page(&mut self, next: Option<&str>, tell: &impl Fn(KindNews<T>)) {
        if next.is_none() {
            self.found.clear();
            self.unreadable.clear();
        }
        match self.client.page::<T>(self.namespace, next, &self.texts).await {
            Err(fault) => self.fail(fault, tell),
            Ok(page) => {
                self.found.extend(page.found);
                self.unreadable.extend(page.unreadable);
                let is_last = page.next.is_none();
                self.course.page(&page.version, page.next);
                if is_last {
                    let (found, unreadable) = (std::mem::take(&mut self.found), std::mem::take(&mut self.unreadable));
                    tell(KindNews::Listed { found, unreadable });
                }
            }
        }
    }

    /// Whether the server is where it was: after it was set back a watch from a version of before says nothing until
    /// that is reached again.
    async fn look_at_version(&mut self, tell: &impl Fn(KindNews<T>)) {
        match self.client.version(T::KIND, self.namespace).await {
            Err(fault) => self.fail(fault, tell),
            Ok(version) => match self.course.at(&version) {
                Standing::GoesOn => {}
                Standing::Rewound => tell(KindNews::Rewound),
            },
        }
    }

    async fn watch(&mut self, from: &str, tell: &impl Fn(KindNews<T>)) {
        let mut watch = match self.client.watch(T::KIND, self.namespace, from, jittered(WATCH_LASTS, chance())).await {
            Ok(watch) => watch,
            Err(fault) => return self.fail(fault, tell),
        };
        // The head of the answer is a sign of life, although nothing may happen for a while.
        tell(KindNews::Heard);
        let mut hidden = pin!(until_hidden(self.client, T::KIND, self.namespace));
        loop {
            let line = tokio::select! {
                biased;
                line = watch.next::<T>(WATCH_IDLE_MAX, &self.texts) => line,
                fault = &mut hidden => Err(fault),
            };
            match line {
                Ok(None) => return self.course.closed(Instant::now(), chance()),
                Ok(Some(Line::Fault(fault))) | Err(fault) => return self.fail(fault, tell),
                Ok(Some(line)) => self.take_line(line, tell),
            }
        }
    }

    fn take_line(&mut self, line: Line<T>, tell: &impl Fn(KindNews<T>)) {
        match line {
            Line::Put(found) => {
                self.course.heard(Some(&found.version));
                tell(KindNews::Put(found));
            }
            Line::Gone { key, version } => {
                self.course.heard(Some(&version));
                tell(KindNews::Gone(key));
            }
            Line::Bookmark { version } => {
                self.course.heard(Some(&version));
                tell(KindNews::Heard);
            }
            Line::Unreadable { unreadable, version } => {
                self.course.heard(version.as_deref());
                tell(KindNews::Unreadable(unreadable));
            }
            Line::Unknown => self.course.heard(None),
            Line::Fault(fault) => self.fail(fault, tell),
        }
    }

    fn fail(&mut self, fault: Fault, tell: &impl Fn(KindNews<T>)) {
        self.course.failed(&fault, Instant::now(), chance());
        tell(KindNews::Fault(fault));
    }
}

/// Until the server says that the kind may not be seen any more, or is not there. Whatever else goes wrong with the
/// question is not told: the watch beside it goes on, or ends for a reason of its own.
async fn until_hidden(client: &Client, kind: Kind, namespace: Option<&str>) -> Fault {
    let mut refusals = Refusals::default();
    loop {
        tokio::time::sleep(if refusals.are_any() { LOOKED_AGAIN } else { jittered(LOOKED_EVERY, chance()) }).await;
        match client.version(kind, namespace).await {
            Ok(_) => refusals = Refusals::default(),
            Err(fault) => {
                refusals.note(&fault, true);
                if refusals.are_believed() {
                    return fault;
                }
            }
        }
    }
}

/// Not all watches of a process end, and begin anew, at the same time.
fn jittered(time: Duration, chance: f64) -> Duration {
    time.mul_f64(0.8 + 0.2 * chance)
}

fn chance() -> f64 {
    rand::random()
}
