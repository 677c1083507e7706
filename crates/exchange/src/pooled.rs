//! Heads, scratch space and what limits leave behind, leased from the worker and given back on drop, so that a request
//! at steady state allocates nothing and an idle connection holds none.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use tidegate_middleware::Limited;
use tidegate_wire::head::{RequestHead, ResponseHead};

/// Free leases of each kind that a worker keeps.
const FREE_MAX: usize = 256;
/// A head that had to grow beyond this is not kept: one client with huge heads must not pin memory.
const KEPT_BYTES_MAX: usize = 16 << 10;

pub trait Poolable: Default + 'static {
    fn free_list() -> &'static std::thread::LocalKey<RefCell<Vec<Box<Self>>>>;
    fn clear(&mut self);
    fn capacity_bytes(&self) -> usize;
}

macro_rules! poolable {
    ($kind:ty, $list:ident, |$value:ident| $capacity:expr) => {
        thread_local! {
            static $list: RefCell<Vec<Box<$kind>>> = const { RefCell::new(Vec::new()) };
        }
        impl Poolable for $kind {
            fn free_list() -> &'static std::thread::LocalKey<RefCell<Vec<Box<Self>>>> {
                &$list
            }
            fn clear(&mut self) {
                <$kind>::clear(self);
            }
            fn capacity_bytes(&self) -> usize {
                let $value = self;
                $capacity
            }
        }
    };
}

poolable!(RequestHead, REQUEST_HEADS, |head| head.fields.bytes.capacity());
poolable!(ResponseHead, RESPONSE_HEADS, |head| head.fields.bytes.capacity());
poolable!(Vec<u8>, SCRATCH, |scratch| scratch.capacity());
poolable!(Limited, LIMITED, |limited| limited.capacity_bytes());

pub struct Pooled<T: Poolable>(Option<Box<T>>);

impl<T: Poolable> Pooled<T> {
    /// A cleared one.
    #[inline]
    pub fn take() -> Pooled<T> {
        let value = T::free_list().with_borrow_mut(Vec::pop).unwrap_or_default();
        Pooled(Some(value))
    }
}

impl<T: Poolable> Deref for Pooled<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.0.as_ref().expect("taken out only on drop")
    }
}

impl<T: Poolable> DerefMut for Pooled<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("taken out only on drop")
    }
}

impl<T: Poolable> Drop for Pooled<T> {
    fn drop(&mut self) {
        let Some(mut value) = self.0.take() else { return };
        if value.capacity_bytes() > KEPT_BYTES_MAX {
            return;
        }
        value.clear();
        let _ = T::free_list().try_with(|list| {
            let mut list = list.borrow_mut();
            if list.len() < FREE_MAX {
                list.push(value);
            }
        });
    }
}
