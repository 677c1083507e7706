//! What a worker asks the control thread in the middle of a connection, and waits for: a certificate that is not there
//! yet, or the answer to a challenge that another process of the same storage has begun. Who answers is in `control`;
//! what is at hand already is looked up before (`challenges`), so that nobody waits for it.

use rustls::ServerConfig;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tidegate_transport::rt;

/// Connections of the process that wait for an answer; each holds a handshake open. Above it, the next is refused.
pub const WAITING_MAX: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// A certificate for the name, of the site that obtains them on demand.
    Certificate {
        site: Arc<str>,
        name: String,
    },
    HttpChallenge {
        token: String,
    },
    TlsChallenge {
        name: String,
    },
}

#[derive(Debug, Clone)]
pub enum Answer {
    /// The certificate is in place.
    Certificate,
    /// The body of the answer.
    HttpChallenge(Arc<str>),
    /// What the handshake is made with.
    TlsChallenge(Arc<ServerConfig>),
    /// There is none, and there will be none.
    No,
    /// What was asked for may be there later.
    NotNow,
}

/// A question on its way. When it is dropped without an answer, the answer is [`Answer::NotNow`].
pub struct PendingInquiry {
    pub question: Question,
    slot: Arc<Mutex<Slot>>,
}

#[derive(Default)]
struct Slot {
    answer: Option<Answer>,
    waker: Option<Waker>,
}

impl PendingInquiry {
    pub fn answer(self, answer: Answer) {
        self.settle(answer);
    }

    fn settle(&self, answer: Answer) {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        slot.answer.get_or_insert(answer);
        if let Some(waker) = slot.waker.take() {
            waker.wake();
        }
    }
}

impl Drop for PendingInquiry {
    fn drop(&mut self) {
        self.settle(Answer::NotNow);
    }
}

type TakeQuestion = Box<dyn Fn(PendingInquiry) + Send + Sync>;

/// Of the whole process.
#[derive(Default)]
pub struct Inquiries {
    control: OnceLock<TakeQuestion>,
    waiting: AtomicUsize,
}

impl fmt::Debug for Inquiries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inquiries").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}

impl Inquiries {
    /// Says who takes questions from now on; it must not block. To be said once.
    pub fn are_taken_by(&self, control: impl Fn(PendingInquiry) + Send + Sync + 'static) {
        let _ = self.control.set(Box::new(control));
    }

    /// Waits for the answer, for so long at most.
    pub async fn ask(&self, question: Question, limit: Duration) -> Answer {
        let Some(control) = self.control.get() else { return Answer::NotNow };
        let Some(_place) = InquiryPermit::take(&self.waiting) else { return Answer::NotNow };
        let slot = Arc::new(Mutex::new(Slot::default()));
        control(PendingInquiry { question, slot: slot.clone() });
        rt::timeout(limit, Waiting(slot)).await.unwrap_or(Answer::NotNow)
    }
}

struct InquiryPermit<'p>(&'p AtomicUsize);

impl<'p> InquiryPermit<'p> {
    fn take(waiting: &'p AtomicUsize) -> Option<InquiryPermit<'p>> {
        let place = InquiryPermit(waiting);
        // Given back by the drop of `place` when there were too many.
        (waiting.fetch_add(1, Ordering::Relaxed) < WAITING_MAX).then_some(place)
    }
}

impl Drop for InquiryPermit<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Waiting(Arc<Mutex<Slot>>);

impl Future for Waiting {
    type Output = Answer;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match slot.answer.take() {
            Some(answer) => Poll::Ready(answer),
            None => {
                slot.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}
