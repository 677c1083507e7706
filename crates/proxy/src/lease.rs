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

pub trait Leasable: Default + 'static {
    fn free_list() -> &'static std::thread::LocalKey<RefCell<Vec<Box<Self>>>>;
    fn clear(&mut self);
    fn capacity_bytes(&self) -> usize;
}

macro_rules! leasable {
    ($kind:ty, $list:ident, |$value:ident| $capacity:expr) => {
        thread_local! {
            static $list: RefCell<Vec<Box<$kind>>> = const { RefCell::new(Vec::new()) };
        }
        impl Leasable for $kind {
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

leasable!(RequestHead, REQUEST_HEADS, |head| head.fields.bytes.capacity());
leasable!(ResponseHead, RESPONSE_HEADS, |head| head.fields.bytes.capacity());
leasable!(Vec<u8>, SCRATCH, |scratch| scratch.capacity());
leasable!(Limited, LIMITED, |limited| limited.capacity_bytes());

pub struct Lease<T: Leasable>(Option<Box<T>>);

impl<T: Leasable> Lease<T> {
    /// A cleared one.
    #[inline]
    pub fn take() -> Lease<T> {
        let value = T::free_list().with_borrow_mut(Vec::pop).unwrap_or_default();
        Lease(Some(value))
    }
}

impl<T: Leasable> Deref for Lease<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.0.as_ref().expect("taken out only on drop")
    }
}

impl<T: Leasable> DerefMut for Lease<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("taken out only on drop")
    }
}

impl<T: Leasable> Drop for Lease<T> {
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
