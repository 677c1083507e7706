//! Whatever is written in whatever pieces, with whatever room for output, reads back; what was flushed can be read at
//! once.

use super::{Encoder, EncoderCodec, LEVEL_OF_STREAM, Operation, bytes_of_zstd, settings_of_brotli, window_bits};
use crate::ENCODERS_BYTES_MAX;
use crate::brotli_stream::{self, BrotliStream};
use proptest::prelude::*;
use std::io::Read;
use tidegate_model::Coding;

const CODINGS: [Coding; 3] = [Coding::Zstd, Coding::Brotli, Coding::Gzip];

fn decoded(coding: Coding, coded: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    match coding {
        Coding::Zstd => {
            let mut context = zstd_safe::DCtx::create();
            let mut input = zstd_safe::InBuffer::around(coded);
            let mut piece = vec![0; 1 << 16];
            while input.pos() < coded.len() {
                let mut output = zstd_safe::OutBuffer::around(&mut piece[..]);
                context.decompress_stream(&mut output, &mut input).expect("it decodes");
                let produced = output.pos();
                plain.extend_from_slice(&piece[..produced]);
            }
        }
        // A flushed stream has no end yet: what comes before the error is what counts.
        Coding::Brotli => read_all(brotli::Decompressor::new(coded, 4096), &mut plain),
        Coding::Gzip => read_all(flate2::read::GzDecoder::new(coded), &mut plain),
    }
    plain
}

fn read_all(mut from: impl Read, into: &mut Vec<u8>) {
    let mut piece = [0; 4096];
    while let Ok(count) = from.read(&mut piece)
        && count > 0
    {
        into.extend_from_slice(&piece[..count]);
    }
}

/// Runs one operation to its end with output in pieces of `room`.
fn run(encoder: &mut Encoder, mut input: &[u8], operation: Operation, room: usize, coded: &mut Vec<u8>) {
    let mut output = vec![0; room];
    for _ in 0..10_000_000 {
        let step = encoder.step(input, &mut output, operation).expect("it encodes");
        coded.extend_from_slice(&output[..step.produced]);
        input = &input[step.consumed..];
        if step.is_done {
            assert!(input.is_empty());
            return;
        }
    }
    panic!("it never ends");
}

#[test]
fn what_is_flushed_can_be_read() {
    for coding in CODINGS {
        let mut encoder = Encoder::new(coding, 3, None).expect("there is memory");
        let mut coded = Vec::new();
        for count in 1..=20 {
            run(&mut encoder, b"data: tick\n\n", Operation::Process, 64, &mut coded);
            run(&mut encoder, b"", Operation::Flush, 64, &mut coded);
            assert_eq!(decoded(coding, &coded), b"data: tick\n\n".repeat(count), "{coding:?}");
        }
        run(&mut encoder, b"", Operation::Finish, 64, &mut coded);
        assert_eq!(decoded(coding, &coded), b"data: tick\n\n".repeat(20), "{coding:?}");
    }
}

#[test]
fn an_empty_body_has_an_end_too() {
    for coding in CODINGS {
        for length in [None, Some(0)] {
            let mut encoder = Encoder::new(coding, 1, length).expect("there is memory");
            let mut coded = Vec::new();
            run(&mut encoder, b"", Operation::Finish, 64, &mut coded);
            assert!(!coded.is_empty() && decoded(coding, &coded).is_empty(), "{coding:?}");
        }
    }
}

#[test]
fn a_context_that_was_given_up_in_the_middle_begins_anew() {
    for (coding, level) in CODINGS.into_iter().flat_map(|coding| (1..=9).map(move |level| (coding, level))) {
        for flushes in [false, false, true] {
            let mut encoder = Encoder::new(coding, level, None).expect("there is memory");
            run(&mut encoder, &[7; 10_000], Operation::Process, 64, &mut Vec::new());
            if flushes {
                run(&mut encoder, b"", Operation::Flush, 64, &mut Vec::new());
                run(&mut encoder, b"more", Operation::Process, 64, &mut Vec::new());
            }
            drop(encoder);
            for level in [level, 5] {
                let mut encoder = Encoder::new(coding, level, Some(3)).expect("there is memory");
                let mut coded = Vec::new();
                run(&mut encoder, b"abc", Operation::Finish, 64, &mut coded);
                assert_eq!(decoded(coding, &coded), b"abc", "{coding:?} {level}");
            }
        }
    }
}

#[test]
fn encoders_hold_no_more_than_they_may() {
    for coding in CODINGS {
        let encoders: Vec<_> = std::iter::from_fn(|| Encoder::new(coding, 9, None)).take(100_000).collect();
        assert!(encoders.len() < 1000 && encoders.len() > 40, "{coding:?}: {}", encoders.len());
        drop(encoders);
        assert!(Encoder::new(coding, 9, None).is_some(), "{coding:?}: it was given back");
    }
    assert!(bytes_of_zstd(9, 20) < ENCODERS_BYTES_MAX / 4);
}

#[test]
fn br_takes_a_lower_level_where_memory_is_short() {
    let new = || Encoder::new(Coding::Brotli, 9, Some(2000));
    let encoders: Vec<_> = std::iter::from_fn(new).take(1000).collect();
    let held: Vec<usize> = encoders.iter().map(Encoder::held_bytes).collect();
    let least = brotli_stream::bytes_needed(3, 17, Some(2000));
    assert!(held.iter().sum::<usize>() + least > ENCODERS_BYTES_MAX, "all of it is in use");
    let needed = |level: u8| brotli_stream::bytes_needed(level, 17, Some(2000));
    assert_eq!((held[0], held[1], held.last()), (needed(9), needed(6), Some(&needed(3))));
    drop(encoders);
    assert_eq!(new().map(|encoder| encoder.held_bytes()), Some(held[0]));
}

#[test]
fn zstd_takes_no_more_than_is_counted() {
    for level in 1..=9 {
        for length in [None, Some(100), Some(2_000), Some(100_000), Some(1 << 20), Some(3 << 20), Some(1 << 33)] {
            crate::context::forget();
            let mut encoder = Encoder::new(Coding::Zstd, level, length).expect("there is memory");
            let _ = encoder.step(&[1; 64], &mut [0; 64], Operation::Process);
            let EncoderCodec::Zstd(Some(context)) = &encoder.codec else { panic!("zstd") };
            let counted = bytes_of_zstd(if length.is_none() { 1 } else { level }, window_bits(Coding::Zstd, level, length));
            assert!(context.sizeof() <= counted, "level {level}, {length:?}: {} of {counted}", context.sizeof());
        }
    }
}

#[test]
fn br_takes_a_smaller_window_where_memory_is_short() {
    let check = |level: u8, window_bits: u32, expected: &[(u8, u32)]| {
        let settings: Vec<(u8, u32)> = settings_of_brotli(level, window_bits).collect();
        assert_eq!(settings, expected);
        let needed = |&(level, bits): &(u8, u32)| brotli_stream::bytes_needed(level, bits, Some(1 << window_bits));
        let needed: Vec<usize> = settings.iter().map(needed).collect();
        assert!(needed.is_sorted_by(|more, less| more > less), "{needed:?}");
    };
    check(9, 20, &[(9, 20), (6, 20), (6, 19), (6, 18), (6, 17), (3, 17)]);
    check(5, 20, &[(5, 20), (5, 19), (5, 18), (5, 17), (3, 17)]);
    check(4, 18, &[(4, 18), (4, 17), (3, 17)]);
    check(4, 12, &[(4, 12), (3, 12)]);
    check(3, 19, &[(3, 19), (3, 18), (3, 17)]);
    check(2, 10, &[(2, 10)]);
}

/// Texts that find the tables of the codec in different states: one that repeats, one that never does, one like text.
fn texts(bytes: usize) -> [Vec<u8>; 3] {
    let mut number = 1_u32;
    let mut random = || {
        number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (number >> 24) as u8
    };
    let noise = (0..bytes).map(|_| random()).collect();
    let like_text = (0..bytes).map(|place| if place % 7 == 6 { b' ' } else { b'a' + random() % 16 }).collect();
    [b"<li class=item>".iter().copied().cycle().take(bytes).collect(), noise, like_text]
}

#[test]
fn br_takes_no_more_than_is_counted() {
    let check_window = |level: u8, window_bits: u32, length: Option<u64>, text: &[u8]| {
        crate::cells::forget();
        crate::cells::counted::take_most();
        let counted = brotli_stream::bytes_needed(level, window_bits, length);
        let stream = Box::new(BrotliStream::new(level, window_bits, length));
        let mut encoder = Encoder { codec: EncoderCodec::Brotli(stream), share: None };
        for piece in text.chunks(60_000) {
            run(&mut encoder, piece, Operation::Process, 1 << 16, &mut Vec::new());
        }
        run(&mut encoder, b"", Operation::Finish, 1 << 16, &mut Vec::new());
        let taken = crate::cells::counted::take_most();
        assert!(taken <= counted, "level {level}, window {window_bits}, {length:?}: {taken} of {counted}");
    };
    let check = |level: u8, length: Option<u64>, text: &[u8]| {
        let level = if length.is_none() { level.min(LEVEL_OF_STREAM) } else { level };
        check_window(level, window_bits(Coding::Brotli, level, length), length, text);
    };
    for level in 1..=9 {
        for length in [None, Some(2_000), Some(20_000), Some(100_000)] {
            for text in texts(length.unwrap_or(300_000) as usize) {
                check(level, length, &text);
            }
        }
    }
    // Beyond the largest window, where buffers grow by what is waiting.
    let [_, _, like_text] = texts(3 << 20);
    for level in [3, 4, 6] {
        check(level, Some(3 << 20), &like_text);
    }
    // Where memory is short.
    for (level, bits) in [(6, 19), (6, 18), (6, 17), (5, 18), (4, 17), (3, 17), (4, 19)] {
        check_window(level, bits, Some(3 << 20), &like_text);
    }
}

#[test]
fn a_window_is_as_large_as_the_body() {
    let check = |length: Option<u64>, expected: u32| assert_eq!(window_bits(Coding::Brotli, 4, length), expected, "{length:?}");
    check(None, 17);
    check(Some(0), 10);
    check(Some(1024), 10);
    check(Some(1025), 11);
    check(Some(1 << 20), 20);
    check(Some(u64::MAX), 20);
    assert_eq!(window_bits(Coding::Brotli, 5, Some(2048)), 17, "where brotli would search for ever");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn what_is_encoded_reads_back(
        pieces in prop::collection::vec((prop::collection::vec(0_u8..4, 0..3000), any::<bool>()), 0..8),
        room in 1_usize..5000,
        level in 1_u8..=9,
        knows_length in any::<bool>(),
    ) {
        let plain: Vec<u8> = pieces.iter().flat_map(|(piece, _)| piece.iter().copied()).collect();
        for coding in CODINGS {
            let length = knows_length.then_some(plain.len() as u64);
            let mut encoder = Encoder::new(coding, level, length).expect("there is memory");
            let mut coded = Vec::new();
            for (piece, flushes) in &pieces {
                let operation = if *flushes { Operation::Flush } else { Operation::Process };
                run(&mut encoder, piece, operation, room.max(16), &mut coded);
            }
            run(&mut encoder, b"", Operation::Finish, room.max(16), &mut coded);
            prop_assert_eq!(decoded(coding, &coded), plain.clone(), "{:?}", coding);
        }
    }

    /// What an answer looks like says nothing of the answers before it that had the same memory: to other clients, with
    /// secrets in them.
    #[test]
    fn what_was_used_before_gives_the_bytes_of_what_is_new(
        before in prop::collection::vec((prop::collection::vec(any::<u8>(), 1..200), 1_usize..3000, 1_u8..=9, any::<bool>(), 0..3_u8), 1..5),
        text in prop::collection::vec(0_u8..6, 0..20_000),
        repeated in 1_usize..8,
        level in 1_u8..=9,
        knows_length in any::<bool>(),
    ) {
        let plain = text.repeat(repeated);
        let length = knows_length.then_some(plain.len() as u64);
        for coding in CODINGS {
            let coded = || {
                let mut encoder = Encoder::new(coding, level, length).expect("there is memory");
                let mut coded = Vec::new();
                for piece in plain.chunks(30_000) {
                    run(&mut encoder, piece, Operation::Process, 4096, &mut coded);
                }
                run(&mut encoder, b"", Operation::Finish, 4096, &mut coded);
                coded
            };
            crate::context::forget();
            let of_new = coded();
            for (text, repeated, level, knows_length, given_up) in &before {
                let body = [text.repeat(*repeated), plain.clone()].concat();
                let length = knows_length.then_some(body.len() as u64);
                let mut encoder = Encoder::new(coding, *level, length).expect("there is memory");
                run(&mut encoder, &body, Operation::Process, 4096, &mut Vec::new());
                match given_up {
                    0 => {}
                    1 => run(&mut encoder, b"", Operation::Flush, 4096, &mut Vec::new()),
                    _ => run(&mut encoder, b"", Operation::Finish, 4096, &mut Vec::new()),
                }
            }
            prop_assert_eq!(coded(), of_new, "{:?}", coding);
        }
    }
}

#[test]
fn the_pieces_in_which_a_body_comes_do_not_matter_at_the_fast_level_of_br() {
    let body = &texts(300_000)[2];
    let coded = |piece_bytes: usize, room: usize, length: Option<u64>| {
        let mut encoder = Encoder::new(Coding::Brotli, 1, length).expect("there is memory");
        let mut coded = Vec::new();
        for piece in body.chunks(piece_bytes) {
            run(&mut encoder, piece, Operation::Process, room, &mut coded);
        }
        run(&mut encoder, b"", Operation::Finish, room, &mut coded);
        coded
    };
    for length in [None, Some(body.len() as u64)] {
        let of_whole = coded(body.len(), 1 << 20, length);
        assert_eq!(decoded(Coding::Brotli, &of_whole), *body);
        for (piece_bytes, room) in [(1000, 64), (16 << 10, 16 << 10), (65_536, 1 << 20), (131_072, 100), (200_000, 64 << 10)] {
            assert_eq!(coded(piece_bytes, room, length), of_whole, "{piece_bytes}, {room}, {length:?}");
        }
    }
}
