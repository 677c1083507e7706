//! Flow control (RFC 9113 section 5.2): how much may be sent, and how much we let the peer send. The same arithmetic
//! serves streams and connections.

use crate::h2::frame::ID_MAX;

/// The size of every window until something else is said (RFC 9113 section 6.9.2).
pub const DEFAULT_WINDOW_BYTES: u32 = 65_535;

/// What we may still send. SETTINGS may make it negative (RFC 9113 section 6.9.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendWindow(i32);

impl SendWindow {
    pub fn new(bytes: u32) -> SendWindow {
        SendWindow(i32::try_from(bytes).unwrap_or(i32::MAX))
    }

    /// The window as it is, below 0 as well.
    #[cfg(test)]
    pub fn bytes(self) -> i32 {
        self.0
    }

    /// Bytes that may be sent now.
    #[inline]
    pub fn open_bytes(self) -> usize {
        usize::try_from(self.0).unwrap_or(0)
    }

    #[inline]
    pub fn spend(&mut self, bytes: usize) {
        self.0 = self.0.saturating_sub(i32::try_from(bytes).unwrap_or(i32::MAX));
    }

    /// Opens the window further, or closes it by a negative amount. False: it would be larger than any may be.
    #[must_use]
    pub fn change(&mut self, bytes: i64) -> bool {
        let changed = i64::from(self.0) + bytes;
        if changed > i64::from(ID_MAX) {
            return false;
        }
        // What falls below is far below already: no settings take more than 2^31 away.
        self.0 = i32::try_from(changed).unwrap_or(i32::MIN);
        true
    }
}

/// What the peer may still send, and what of it is free again and was not said yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveWindow {
    /// What the peer may send as far as it knows. Less than nothing where it had sent more before it knew of less.
    open: i32,
    /// Free again, and not announced.
    unannounced: u32,
    /// What the window is when everything was read.
    size: u32,
}

impl ReceiveWindow {
    pub fn new(size: u32) -> ReceiveWindow {
        ReceiveWindow { open: i32::try_from(size).unwrap_or(i32::MAX), unannounced: 0, size }
    }

    /// What is open, what is free and was not said, and the size.
    #[cfg(test)]
    pub fn parts(self) -> (i32, u32, u32) {
        (self.open, self.unannounced, self.size)
    }

    /// A window of that size, which the peer holds for as large as windows are at first until it knows our SETTINGS.
    /// [`acknowledged`](Self::acknowledged) is called when it does.
    pub fn before_settings(size: u32) -> ReceiveWindow {
        ReceiveWindow { open: ReceiveWindow::new(size.max(DEFAULT_WINDOW_BYTES)).open, unannounced: 0, size }
    }

    /// The peer knows our SETTINGS, in which windows are of `initial` size, and takes off what it thought to have more
    /// (RFC 9113 section 6.9.3).
    pub fn acknowledged(&mut self, initial: u32) {
        self.open = self.open.saturating_sub_unsigned(DEFAULT_WINDOW_BYTES.saturating_sub(initial));
    }

    /// Takes note of bytes that came. False: they were more than the peer may send.
    #[inline]
    #[must_use]
    pub fn receive(&mut self, bytes: u32) -> bool {
        let is_allowed = i64::from(bytes) <= i64::from(self.open);
        if is_allowed {
            self.open = self.open.saturating_sub_unsigned(bytes);
        }
        is_allowed
    }

    /// Takes note of bytes that were read and need no room any more.
    #[inline]
    pub fn free(&mut self, bytes: u32) {
        self.unannounced = self.unannounced.saturating_add(bytes);
    }

    /// Makes the window larger; what was received stays received. A smaller size is ignored.
    pub fn widen(&mut self, size: u32) {
        self.unannounced = self.unannounced.saturating_add(size.min(ID_MAX).saturating_sub(self.size));
        self.size = self.size.max(size.min(ID_MAX));
    }

    /// The increment to announce, once it is worth a frame: half of the window, so that a peer that sends on is not
    /// held up.
    #[inline]
    pub fn take_increment(&mut self) -> Option<u32> {
        if self.unannounced == 0 || self.unannounced < self.size / 2 {
            return None;
        }
        let increment = std::mem::take(&mut self.unannounced);
        self.open = self.open.saturating_add_unsigned(increment);
        Some(increment)
    }
}

#[cfg(test)]
mod tests {
    use super::{ReceiveWindow, SendWindow};
    use crate::h2::frame::ID_MAX;

    #[test]
    fn a_send_window_never_passes_its_bound_and_may_be_negative() {
        let mut window = SendWindow::new(100);
        window.spend(60);
        assert_eq!(window.open_bytes(), 40);
        assert!(window.change(-100));
        assert_eq!(window.open_bytes(), 0);
        assert!(window.change(61));
        assert_eq!(window.open_bytes(), 1);
        assert!(!window.change(i64::from(ID_MAX)));
        assert!(window.change(i64::from(ID_MAX) - 1));
        assert_eq!(window.open_bytes(), ID_MAX as usize);
    }

    #[test]
    fn a_receive_window_is_opened_by_halves() {
        let mut window = ReceiveWindow::new(100);
        assert!(window.receive(60) && !window.receive(41) && window.receive(40));
        window.free(49);
        assert_eq!(window.take_increment(), None);
        window.free(1);
        assert_eq!(window.take_increment(), Some(50));
        assert!(window.receive(50) && !window.receive(1));
    }

    #[test]
    fn a_peer_that_does_not_know_of_less_may_send_what_windows_are_at_first() {
        let mut window = ReceiveWindow::before_settings(1000);
        assert!(window.receive(65_000));
        window.acknowledged(1000);
        assert!(!window.receive(1));
        window.free(65_000);
        assert_eq!(window.take_increment(), Some(65_000));
        // Of 65,535 there were 535 left, of which 64,535 were taken off; as many came back as were read.
        assert!(window.receive(1000) && !window.receive(1));
        let mut larger = ReceiveWindow::before_settings(100_000);
        larger.acknowledged(100_000);
        assert!(larger.receive(100_000) && !larger.receive(1));
    }

    #[test]
    fn a_receive_window_grows_at_once_and_never_shrinks() {
        let mut window = ReceiveWindow::new(100);
        window.widen(300);
        assert_eq!(window.take_increment(), Some(200));
        window.widen(100);
        assert!(window.receive(300) && !window.receive(1));
        window.free(149);
        assert_eq!(window.take_increment(), None, "half of the larger size");
        window.free(1);
        assert_eq!(window.take_increment(), Some(150));
    }
}
