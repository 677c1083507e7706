//! Attacks are stopped at their budgets, and what real clients do for hours is not.

use super::{CONTINUATIONS_MAX, EMPTY, Flood, Floods, PING, PRIORITY, REFUSED, RESET, RESET_COST, SETTINGS, WINDOW_UPDATE};
use crate::h2::frame::{END_HEADERS, FRAME_HEAD_BYTES, FrameHead, FrameKind, PADDED};
use std::time::{Duration, Instant};
use strum::VariantArray;

fn frame(kind: u8, flags: u8, stream_id: u32, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_be_bytes();
    let mut frame = vec![len[1], len[2], len[3], kind, flags];
    frame.extend(stream_id.to_be_bytes());
    frame.extend(payload);
    frame
}

fn headers(stream_id: u32) -> Vec<u8> {
    frame(1, END_HEADERS, stream_id, b"\x82\x86\x84")
}

fn data(len: usize) -> Vec<u8> {
    frame(0, 0, 1, &vec![0; len])
}

fn ping() -> Vec<u8> {
    frame(6, 0, 0, &[0; 8])
}

fn reset(stream_id: u32) -> Vec<u8> {
    frame(3, 0, stream_id, &[0, 0, 0, 8])
}

fn window_update() -> Vec<u8> {
    frame(8, 0, 1, &[0, 0, 0, 1])
}

/// Counts whole frames.
fn observe(floods: &mut Floods, mut frames: &[u8], now: Instant) -> Result<(), Flood> {
    while let Some((head, rest)) = frames.split_first_chunk::<FRAME_HEAD_BYTES>() {
        let head = FrameHead::parse(head);
        let (payload, rest) = rest.split_at(head.len as usize);
        let is_padded = head.kind == FrameKind::Data as u8 && head.has(PADDED);
        let padding = if is_padded { payload.first().map_or(0, |padding| 1 + u32::from(*padding)) } else { 0 };
        floods.count(head, head.len.saturating_sub(padding), now)?;
        frames = rest;
    }
    Ok(())
}

/// How often a piece may be sent at one moment before it is a flood, and which.
fn sent_at_once(piece: impl Fn(u32) -> Vec<u8>, times_max: u32) -> (u32, Option<Flood>) {
    let now = Instant::now();
    let mut floods = Floods::new(now);
    for times in 0..times_max {
        if let Err(flood) = observe(&mut floods, &piece(times), now) {
            return (times, Some(flood));
        }
    }
    (times_max, None)
}

const FOR_HOURS: u32 = 100_000;

#[test]
fn each_flood_ends_at_its_budget() {
    let check = |piece: &[u8], times: u32, flood: Flood| {
        assert_eq!(sent_at_once(|_| piece.to_vec(), FOR_HOURS), (times, Some(flood)));
    };
    check(&ping(), PING.burst, Flood::Ping);
    check(&frame(6, 1, 0, &[0; 8]), PING.burst, Flood::Ping);
    check(&frame(4, 0, 0, &[]), SETTINGS.burst, Flood::Settings);
    check(&frame(4, 1, 0, &[]), SETTINGS.burst, Flood::Settings);
    check(&reset(1), RESET.burst / RESET_COST, Flood::RapidReset);
    check(&frame(2, 0, 1, &[0; 5]), PRIORITY.burst, Flood::Priority);
    check(&frame(0x10, 0, 0, &[0; 8]), PRIORITY.burst, Flood::Priority);
    check(&frame(0xfa, 0, 0, &[]), PRIORITY.burst, Flood::Priority);
    check(&frame(7, 0, 0, &[0; 8]), PRIORITY.burst, Flood::Priority);
    check(&window_update(), WINDOW_UPDATE.burst, Flood::WindowUpdate);
    check(&data(0), EMPTY.burst, Flood::EmptyData);
    // Padding is no content.
    check(&frame(0, 8, 1, &[0]), EMPTY.burst, Flood::EmptyData);
    check(&frame(0, 8, 1, &[200; 201]), EMPTY.burst, Flood::EmptyData);
    check(&frame(0, 8, 1, &[]), EMPTY.burst, Flood::EmptyData);
    check(&frame(1, END_HEADERS, 0, &[]), EMPTY.burst, Flood::EmptyData);
    check(&frame(9, 0, 1, b"x"), CONTINUATIONS_MAX, Flood::Continuation);
    check(&frame(9, 0, 1, b""), CONTINUATIONS_MAX, Flood::Continuation);
}

#[test]
fn rapid_reset_is_stopped_and_cancelling_now_and_then_is_not() {
    let open_and_reset = |times: u32| [headers(2 * times + 1), reset(2 * times + 1)].concat();
    let (times, flood) = sent_at_once(open_and_reset, FOR_HOURS);
    assert_eq!(flood, Some(Flood::RapidReset));
    assert!((200..300).contains(&times), "{times}");
    let one_in_four = |times: u32| {
        let mut piece: Vec<u8> = (0..4).flat_map(|place| headers(2 * (4 * times + place) + 1)).collect();
        piece.extend(reset(2 * (4 * times) + 1));
        piece
    };
    assert_eq!(sent_at_once(one_in_four, FOR_HOURS), (FOR_HOURS, None));
}

#[test]
fn useful_work_pays_for_what_comes_with_it() {
    let endless = |piece: Vec<u8>| assert_eq!(sent_at_once(|_| piece.clone(), FOR_HOURS), (FOR_HOURS, None));
    endless(data(1));
    endless(data(100));
    endless([data(5), window_update(), window_update()].concat());
    endless([data(5), data(0), ping()].concat());
    // Padded data, one byte of it.
    endless(frame(0, 8, 1, &[1, 0, 0]));
    endless([headers(1), frame(0, 1, 1, &[])].concat());
    let new_stream =
        |times: u32| [headers(2 * times + 1), frame(2, 0, 1, &[0; 5]), window_update(), frame(0, 1, 1, &[])].concat();
    assert_eq!(sent_at_once(new_stream, FOR_HOURS), (FOR_HOURS, None));
}

#[test]
fn a_large_head_may_continue_and_the_next_one_too() {
    let now = Instant::now();
    let mut floods = Floods::new(now);
    for stream in 0..100 {
        observe(&mut floods, &frame(1, 0, 2 * stream + 1, b"x"), now).expect("a new head");
        for _ in 0..CONTINUATIONS_MAX {
            observe(&mut floods, &frame(9, 0, 2 * stream + 1, b"x"), now).expect("its continuation");
        }
    }
}

#[test]
fn a_download_pays_for_its_window_updates_and_pings() {
    let now = Instant::now();
    let mut floods = Floods::new(now);
    for _ in 0..FOR_HOURS {
        floods.note_sent(9 + 20);
        observe(&mut floods, &window_update(), now).expect("for the stream");
        observe(&mut floods, &window_update(), now).expect("for the connection");
        observe(&mut floods, &ping(), now).expect("to measure the delay");
    }
    let mut floods = Floods::new(now);
    let pings = (0..FOR_HOURS).take_while(|_| {
        floods.note_sent("the answer is 17B".len());
        observe(&mut floods, &ping(), now).is_ok()
    });
    assert!(pings.count() < 4 * PING.burst as usize, "pings do not pay for themselves");
}

#[test]
fn budgets_refill_with_time() {
    let start = Instant::now();
    let mut floods = Floods::new(start);
    let mut now = start;
    for _ in 0..10_000 {
        now += Duration::from_millis(10);
        observe(&mut floods, &ping(), now).expect("a hundred pings a second");
    }
    let left = (0..FOR_HOURS).take_while(|_| observe(&mut floods, &ping(), now).is_ok()).count();
    assert!(left <= 2 * PING.burst as usize, "{left}");
    // A clock that seems to go back is no reason to panic.
    let mut floods = Floods::new(now);
    let left = (0..FOR_HOURS).take_while(|_| observe(&mut floods, &ping(), start).is_ok()).count();
    assert_eq!(left, PING.burst as usize);
}

#[test]
fn reasons_are_distinct() {
    let reasons: std::collections::HashSet<_> = Flood::VARIANTS.iter().map(|flood| flood.reason()).collect();
    assert_eq!(reasons.len(), Flood::VARIANTS.len());
}

#[test]
fn heads_that_there_is_no_memory_for_are_a_flood_unless_others_are_taken() {
    let now = Instant::now();
    let mut floods = Floods::new(now);
    for _ in 0..REFUSED.burst {
        floods.count_refused_for_memory(now).expect("within the burst");
    }
    assert_eq!(floods.count_refused_for_memory(now), Err(Flood::HeldMemory));
    let mut floods = Floods::new(now);
    for _ in 0..FOR_HOURS {
        floods.note_taken();
        floods.count_refused_for_memory(now).expect("paid for");
        floods.count_refused_for_memory(now).expect("paid for");
    }
}
