//! Instructions that lanes do together: tensor cores, exchanges, barriers, copies.

use super::super::code::*;
use super::super::count::Class;
use super::super::fragments;
use super::decode::{Decoding, UNKNOWN, Wrong, address, list};
use super::names::Width;

/// Shape, types, operation.
const MMA: [(&str, &str, Mma); 6] = [
    ("m8n8k16", "s32.s8.s8.s32", Mma::S8M8N8K16),
    ("m16n8k16", "s32.s8.s8.s32", Mma::S8M16N8K16),
    ("m16n8k32", "s32.s8.s8.s32", Mma::S8M16N8K32),
    ("m16n8k8", "f32.f16.f16.f32", Mma::F16M16N8K8),
    ("m16n8k16", "f32.f16.f16.f32", Mma::F16M16N8K16),
    ("m16n8k16", "f32.bf16.bf16.f32", Mma::Bf16M16N8K16),
];

pub(super) fn op(d: &mut Decoding<'_>, parts: &[&str]) -> Wrong<(Op, Class)> {
    match *parts {
        ["mma", "sync", "aligned", shape, "row", "col", ref types @ ..] => mma(d, shape, &types.join(".")),
        ["ldmatrix", "sync", "aligned", "m8n8", count, ref rest @ ..] => load_matrix(d, count, rest),
        ["cp", "async", "cg", "shared", "global"] => {
            let [to, from, size, bytes] = d.exactly()?;
            if size != "16" {
                return Err(format!("copies {size} bytes, .cg copies 16"));
            }
            let (to, from) = (address(d, Space::Shared, to)?, address(d, Space::Global, from)?);
            Ok((Op::Copy { to, from, bytes: d.value(bytes, Width::Word)? }, Class::Copy))
        }
        ["cp", "async", "commit_group"] => d.exactly::<0>().map(|_| (Op::CopyCommit, Class::Copy)),
        ["cp", "async", "wait_all"] => d.exactly::<0>().map(|_| (Op::CopyWait(u32::MAX), Class::Copy)),
        ["cp", "async", "wait_group"] => {
            let [groups] = d.exactly()?;
            let groups = groups.parse().ok().filter(|n| *n < u32::MAX);
            Ok((Op::CopyWait(groups.ok_or("expected a number of groups")?), Class::Copy))
        }
        ["prefetch", "global", "L2"] => {
            let [at] = d.exactly()?;
            Ok((Op::Prefetch(address(d, Space::Global, at)?), Class::Prefetch))
        }
        ["shfl", "sync", how, "b32"] => shuffle(d, how),
        ["vote", "sync", "ballot", "b32"] => {
            let [to, predicate, members] = d.exactly()?;
            let to = d.register(to, Width::Word)?;
            let predicate = d.register(predicate, Width::Predicate)?;
            Ok((Op::Ballot { d: to, predicate, members: d.value(members, Width::Word)? }, Class::Exchange))
        }
        ["bar", "warp", "sync"] => {
            let [members] = d.exactly()?;
            Ok((Op::WarpBarrier(d.value(members, Width::Word)?), Class::Barrier))
        }
        ["bar", "sync"] => match d.exactly()? {
            ["0"] => Ok((Op::Barrier, Class::Barrier)),
            [other] => Err(format!("barrier {other}: this machine has barrier 0")),
        },
        ["bar", "red", "or", "pred"] => {
            let [to, barrier, predicate] = d.exactly()?;
            if barrier != "0" {
                return Err(format!("barrier {barrier}: this machine has barrier 0"));
            }
            let to = d.register(to, Width::Predicate)?;
            Ok((Op::BarrierOr(to, d.register(predicate, Width::Predicate)?), Class::Barrier))
        }
        ["membar", "cta" | "gl"] => d.exactly::<0>().map(|_| (Op::Fence(false), Class::Barrier)),
        ["membar", "sys"] => d.exactly::<0>().map(|_| (Op::Fence(true), Class::Barrier)),
        _ => Err(UNKNOWN.to_owned()),
    }
}

fn mma(d: &mut Decoding<'_>, shape: &str, types: &str) -> Wrong<(Op, Class)> {
    let found = MMA.iter().find(|(s, t, ..)| *s == shape && *t == types).ok_or(UNKNOWN)?;
    let operands: [_; 4] = d.exactly()?.map(list);
    let [nd, na, nb] = fragments::registers(found.2);
    let mut rows = Vec::new();
    for (names, count) in operands.iter().zip([nd, na, nb, nd]) {
        if names.len() != count {
            return Err(format!("{} registers where the shape has {count}", names.len()));
        }
        for name in names {
            rows.push(d.register(name, Width::Word)?);
        }
    }
    Ok((Op::Mma(found.2, d.keep(&rows)), Class::Matrix))
}

fn load_matrix(d: &mut Decoding<'_>, count: &str, rest: &[&str]) -> Wrong<(Op, Class)> {
    let count: u8 = match count {
        "x1" => 1,
        "x2" => 2,
        "x4" => 4,
        _ => return Err(UNKNOWN.to_owned()),
    };
    let transposed = match rest {
        ["shared", "b16"] => false,
        ["trans", "shared", "b16"] => true,
        _ => return Err(UNKNOWN.to_owned()),
    };
    let [to, from] = d.exactly()?;
    let names = list(to);
    if names.len() != usize::from(count) {
        return Err(format!("{} registers, the instruction loads {count}", names.len()));
    }
    let mut rows = [0; 4];
    for (row, name) in rows.iter_mut().zip(names) {
        *row = d.register(name, Width::Word)?;
    }
    let address = address(d, Space::Shared, from)?;
    Ok((Op::LoadMatrix { d: rows, count, transposed, address }, Class::LoadMatrix))
}

fn shuffle(d: &mut Decoding<'_>, how: &str) -> Wrong<(Op, Class)> {
    let how = match how {
        "bfly" => Shuffle::Xor,
        "idx" => Shuffle::Index,
        "up" => Shuffle::Up,
        "down" => Shuffle::Down,
        _ => return Err(UNKNOWN.to_owned()),
    };
    let [to, value, lane, clamp, members] = d.exactly()?;
    let (to, valid) = match to.split_once('|') {
        Some((to, valid)) => (to, Some(d.register(valid, Width::Predicate)?)),
        None => (to, None),
    };
    let op = Op::Shuffle {
        how,
        d: d.register(to, Width::Word)?,
        valid,
        value: d.value(value, Width::Word)?,
        lane: d.value(lane, Width::Word)?,
        clamp: d.value(clamp, Width::Word)?,
        members: d.value(members, Width::Word)?,
    };
    Ok((op, Class::Exchange))
}
