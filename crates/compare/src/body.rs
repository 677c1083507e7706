//! Whether two bodies are the same: byte by byte, or what they are once codings are undone and what varies is left out.

use crate::answer::{Answer, Body};
use crate::headers::Rules;
use regex::bytes::{NoExpand, Regex};
use std::borrow::Cow;
use tidegate_coding::{DecodedCoding, Decoder};

/// The most that a coded body may become.
const DECODED_BYTES_MAX: usize = 16 << 20;
/// What is shown of each side, and how much of it before the first difference.
const EXCERPT_BYTES: usize = 60;
const EXCERPT_BYTES_BEFORE: usize = 12;

/// How two bodies compare.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    Same,
    /// As far as they are kept; what varies may be anywhere behind.
    SameBeginning,
    Different {
        /// The first byte, of what is compared.
        at: u64,
        old: Vec<u8>,
        new: Vec<u8>,
    },
}

pub fn compare(old: &Answer, new: &Answer, rules: &Rules) -> Verdict {
    if old.body.bytes == new.body.bytes && old.body.digest == new.body.digest && coding(old) == coding(new) {
        return Verdict::Same;
    }
    let (old_bytes, new_bytes) = (decoded(old), decoded(new));
    let (old_text, new_text) = (without(&old_bytes, &rules.ignored_in_bodies), without(&new_bytes, &rules.ignored_in_bodies));
    let is_whole = old.body.is_whole() && new.body.is_whole();
    if is_whole {
        return if old_text == new_text { Verdict::Same } else { first_difference(&old_text, &new_text) };
    }
    // Where a part was left out, the two ends do not lie at the same place.
    let shared = old_text.len().min(new_text.len());
    if old_text[..shared] != new_text[..shared] {
        return first_difference(&old_text, &new_text);
    }
    if !rules.ignored_in_bodies.is_empty() {
        return Verdict::SameBeginning;
    }
    Verdict::Different { at: shared as u64, old: ending(&old.body), new: ending(&new.body) }
}

/// What can be said of bodies that differ behind what is kept.
fn ending(body: &Body) -> Vec<u8> {
    let whole = if body.is_whole() { "all of it kept" } else { "the beginning kept" };
    format!("({} bytes, {whole})", body.bytes).into_bytes()
}

fn first_difference(old: &[u8], new: &[u8]) -> Verdict {
    let at = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let excerpt = |bytes: &[u8]| {
        let start = at.saturating_sub(EXCERPT_BYTES_BEFORE).min(bytes.len());
        let end = (start + EXCERPT_BYTES).min(bytes.len());
        bytes[start..end].to_vec()
    };
    Verdict::Different { at: at as u64, old: excerpt(old), new: excerpt(new) }
}

fn without<'b>(bytes: &'b [u8], ignored: &[Regex]) -> Cow<'b, [u8]> {
    let mut text = Cow::Borrowed(bytes);
    for pattern in ignored {
        if let Cow::Owned(rest) = pattern.replace_all(&text, NoExpand(b"")) {
            text = Cow::Owned(rest);
        }
    }
    text
}

fn coding(answer: &Answer) -> Option<DecodedCoding> {
    answer.header("content-encoding").and_then(DecodedCoding::of)
}

/// The body without its coding; as it came where that cannot be undone.
fn decoded(answer: &Answer) -> Cow<'_, [u8]> {
    let kept = Cow::Borrowed(answer.body.kept.as_slice());
    let Some(coding) = coding(answer).filter(|_| answer.body.is_whole()) else { return kept };
    decode(coding, &answer.body.kept).map_or(kept, Cow::Owned)
}

fn decode(coding: DecodedCoding, mut input: &[u8]) -> Option<Vec<u8>> {
    const STEP_BYTES: usize = 64 << 10;
    let mut decoder = Decoder::new(coding)?;
    let mut output = Vec::new();
    let mut piece = vec![0; STEP_BYTES];
    loop {
        let step = decoder.step(input, &mut piece).ok()?;
        input = input.get(step.consumed..)?;
        output.extend_from_slice(piece.get(..step.produced)?);
        let is_stuck = step.consumed == 0 && step.produced == 0;
        if input.is_empty() && (step.is_done || (is_stuck && decoder.may_end())) {
            return Some(output);
        }
        if is_stuck || step.is_done || output.len() > DECODED_BYTES_MAX {
            return None;
        }
    }
}
