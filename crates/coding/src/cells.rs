//! Memory of the encoders of br: what one has given back is kept by its thread for the next. That codec has no context
//! that could be reset, and asks for up to twenty pieces of memory for each answer, some of half a megabyte. Asked of
//! the allocator as zeros they come as pages that the kernel has to clear and map one by one: 2 KB at level 2 took
//! 250 µs of which 17 were the codec's.
//!
//! What was kept holds bytes of another answer, to another client: no piece is handed out before all of it is cleared.

use crate::context;
use brotli::enc::cluster::HistogramPair;
use brotli::enc::command::Command;
use brotli::enc::entropy_encode::HuffmanTree;
use brotli::enc::histogram::{ContextType, HistogramCommand, HistogramDistance, HistogramLiteral};
use brotli::enc::{Allocator, BrotliAlloc, PDF, SliceWrapper, SliceWrapperMut, StaticCommand, ZopfliNode, floatX, s16, v8};
use std::cell::{Cell, RefCell};
use std::ops::{Index, IndexMut};

/// What a thread keeps of this memory while no encoder has it: what two encoders take at level 5, or six at level 1.
const IDLE_BYTES_MAX: usize = 8 << 20;
/// Below, the allocator has its own kept pieces, and nothing is mapped.
const KEPT_BYTES_LEAST: usize = 16 << 10;
/// Above, a piece is taken as zeros and given back: the tables of level 7 and beyond, of which a body touches a part.
const KEPT_BYTES_MAX: usize = 2 << 20;
/// A kept piece may be so many times as large as what is asked for: small answers would hold what large ones need.
const EXCESS_MAX: usize = 2;

thread_local! {
    static IDLE_BYTES: Cell<usize> = const { Cell::new(0) };
}

/// The allocator of an encoder of br.
#[derive(Debug, Default, Clone, Copy)]
pub struct KeptCells;

impl BrotliAlloc for KeptCells {}

/// A piece of memory in the hands of an encoder. Dropped, it goes back to what its thread keeps.
pub struct Cells<T: CellKind>(Vec<T>);

/// What pieces are made of.
pub trait CellKind: Clone + Default + 'static {
    /// What the thread keeps of this kind; `None` when the thread is ending.
    fn with_idle<R>(use_it: impl FnOnce(&mut Vec<Vec<Self>>) -> R) -> Option<R>;
}

impl<T: CellKind> Cells<T> {
    fn take(count: usize) -> Cells<T> {
        let cells = if is_kept(count * size_of::<T>()) {
            let mut cells = Self::kept(count).unwrap_or_else(|| Vec::with_capacity(count));
            // All of what the codec sees is written here, whatever was in it.
            cells.clear();
            cells.resize(count, T::default());
            cells
        } else {
            vec![T::default(); count]
        };
        #[cfg(test)]
        counted::add(size_of::<T>() * cells.capacity());
        Cells(cells)
    }

    /// The one that was given back last, of those that fit: its bytes are the likeliest in the processor's caches.
    fn kept(count: usize) -> Option<Vec<T>> {
        let fits = |cells: &Vec<T>| cells.capacity() >= count && cells.capacity() <= EXCESS_MAX * count;
        let cells = T::with_idle(|idle| idle.iter().rposition(fits).map(|place| idle.remove(place)))??;
        IDLE_BYTES.set(IDLE_BYTES.get() - bytes(&cells));
        context::subtract_kept(bytes(&cells));
        Some(cells)
    }
}

impl<T: CellKind> Drop for Cells<T> {
    fn drop(&mut self) {
        let cells = std::mem::take(&mut self.0);
        #[cfg(test)]
        counted::subtract(bytes(&cells));
        if !is_kept(bytes(&cells)) {
            return;
        }
        if IDLE_BYTES.get() + bytes(&cells) > IDLE_BYTES_MAX {
            // Of sizes that nobody has asked for lately, for all that is known.
            forget();
        }
        let bytes = bytes(&cells);
        if T::with_idle(|idle| idle.push(cells)).is_some() {
            IDLE_BYTES.set(IDLE_BYTES.get() + bytes);
            context::add_kept(bytes);
        }
    }
}

fn is_kept(bytes: usize) -> bool {
    (KEPT_BYTES_LEAST..=KEPT_BYTES_MAX).contains(&bytes)
}

fn bytes<T>(cells: &Vec<T>) -> usize {
    size_of::<T>() * cells.capacity()
}

impl<T: CellKind> Default for Cells<T> {
    fn default() -> Cells<T> {
        Cells(Vec::new())
    }
}

impl<T: CellKind> SliceWrapper<T> for Cells<T> {
    fn slice(&self) -> &[T] {
        &self.0
    }
}

impl<T: CellKind> SliceWrapperMut<T> for Cells<T> {
    fn slice_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

impl<T: CellKind> Index<usize> for Cells<T> {
    type Output = T;

    fn index(&self, place: usize) -> &T {
        &self.0[place]
    }
}

impl<T: CellKind> IndexMut<usize> for Cells<T> {
    fn index_mut(&mut self, place: usize) -> &mut T {
        &mut self.0[place]
    }
}

/// Each kind is kept for itself: memory of one is never seen as another.
macro_rules! kinds {
    ($($kind:ty),*) => {
        $(
            impl CellKind for $kind {
                fn with_idle<R>(use_it: impl FnOnce(&mut Vec<Vec<Self>>) -> R) -> Option<R> {
                    thread_local! {
                        static IDLE: RefCell<Vec<Vec<$kind>>> = const { RefCell::new(Vec::new()) };
                    }
                    IDLE.try_with(|idle| idle.try_borrow_mut().ok().map(|mut idle| use_it(&mut idle))).ok().flatten()
                }
            }

            impl Allocator<$kind> for KeptCells {
                type AllocatedMemory = Cells<$kind>;

                fn alloc_cell(&mut self, count: usize) -> Cells<$kind> {
                    Cells::take(count)
                }

                fn free_cell(&mut self, _: Cells<$kind>) {}
            }
        )*

        /// Gives back all that the thread keeps.
        pub fn forget() {
            context::subtract_kept(IDLE_BYTES.take());
            $(
                <$kind>::with_idle(|idle| *idle = Vec::new());
            )*
        }
    };
}

kinds!(
    u8,
    u16,
    i32,
    u32,
    u64,
    Command,
    floatX,
    v8,
    s16,
    PDF,
    StaticCommand,
    HistogramLiteral,
    HistogramCommand,
    HistogramDistance,
    HistogramPair,
    ContextType,
    HuffmanTree,
    ZopfliNode
);

/// What encoders have had of it at the most, for the test of what is said of it beforehand.
#[cfg(test)]
pub mod counted {
    use std::cell::Cell;

    thread_local! {
        static AT_WORK: Cell<usize> = const { Cell::new(0) };
        static MOST: Cell<usize> = const { Cell::new(0) };
    }

    pub fn add(bytes: usize) {
        AT_WORK.set(AT_WORK.get() + bytes);
        MOST.set(MOST.get().max(AT_WORK.get()));
    }

    pub fn subtract(bytes: usize) {
        AT_WORK.set(AT_WORK.get() - bytes);
    }

    /// The most since the last call.
    pub fn take_most() -> usize {
        MOST.replace(AT_WORK.get())
    }
}

#[cfg(test)]
mod tests {
    use super::{Cells, IDLE_BYTES, IDLE_BYTES_MAX, SliceWrapper, SliceWrapperMut, forget};

    fn take(count: usize) -> Cells<u32> {
        Cells::take(count)
    }

    fn place(cells: &Cells<u32>) -> *const u32 {
        cells.slice().as_ptr()
    }

    #[test]
    fn what_is_handed_out_again_is_cleared() {
        forget();
        let mut written = take(100_000);
        written.slice_mut().fill(0x7365_6372);
        let first = place(&written);
        drop(written);
        for count in [100_000, 60_000, 99_999] {
            let again = take(count);
            assert_eq!(place(&again), first, "it is the same memory");
            assert_eq!(again.slice(), vec![0; count]);
        }
    }

    #[test]
    fn what_is_kept_is_bounded() {
        forget();
        let many: Vec<Cells<u32>> = (0..100).map(|_| take(100_000)).collect();
        assert_eq!(IDLE_BYTES.get(), 0, "it is in use");
        drop(many);
        assert!(IDLE_BYTES.get() > 0 && IDLE_BYTES.get() <= IDLE_BYTES_MAX);
        forget();
        let check = |count: usize, expected: usize| {
            drop(take(count));
            assert_eq!(IDLE_BYTES.get(), expected, "for {count}");
        };
        check(100, 0);
        check(1 << 20, 0);
        check(100_000, 400_000);
        check(100_000, 400_000);
        // Half of it or more has to be of use.
        check(40_000, 560_000);
    }
}
