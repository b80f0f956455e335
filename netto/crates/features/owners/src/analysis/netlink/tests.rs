//! Answers as a kernel gave them (6.18, x86-64), and damaged ones.

use proptest::prelude::*;

use super::*;

/// A veth whose other end is in another namespace; `ip -d link`'s `nettovA@if2`. Attributes that
/// nobody reads are left out, but for three.
const VETH: &str = "6c000000 1000 0000 07000000 fa460000 \
    00000100 07000000 02100000 00000000 \
    0c000300 6e6574746f764100 \
    08000d00 e8030000 \
    0a000100 72f5ee258db00000 \
    10001200 09000100 76657468 00000000 \
    08002500 00000000 \
    08000500 02000000 \
    09000600 6e6f6f7000000000";
/// The number of a namespace, of one that has none, and no such process.
const NSID: &str = "1c000000 5800 0000 08000000 fa460000 00000000 08000100 00000000";
const NO_NSID: &str = "1c000000 5800 0000 09000000 fa460000 00000000 08000100 ffffffff";
const NO_PROCESS: &str = "30000000 0200 0000 0a000000 fa460000 fdffffff \
    1c000000 5a00 0100 0a000000 00000000 00000000 08000200 00093d00";
/// No such interface.
const NO_LINK: &str = "3c000000 0200 0000 07000000 fa460000 edffffff \
    28000000 1200 0100 07000000 00000000 00000000 9f860100 00000000 00000000 08001d00 08000000";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: String = hex.split_ascii_whitespace().collect();
    let pairs = digits.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn veth() -> Link {
    Link {
        index: 7,
        name: "nettovA".to_owned(),
        kind: "veth".to_owned(),
        peer: 2,
        peer_nsid: Some(0),
    }
}

#[test]
fn a_veth_says_where_its_other_end_is() {
    assert_eq!(answer(&bytes(VETH), 7), Some(Answer::Link(veth())));
}

#[test]
fn namespaces_have_a_number_or_none() {
    assert_eq!(answer(&bytes(NSID), 8), Some(Answer::Nsid(Some(0))));
    assert_eq!(answer(&bytes(NO_NSID), 9), Some(Answer::Nsid(None)));
}

#[test]
fn a_refusal_has_its_error() {
    assert_eq!(
        answer(&bytes(NO_PROCESS), 10),
        Some(Answer::Refused(-libc::ESRCH))
    );
    assert_eq!(
        answer(&bytes(NO_LINK), 7),
        Some(Answer::Refused(-libc::ENODEV))
    );
}

#[test]
fn answers_to_other_requests_are_passed_over() {
    let all = [bytes(NSID), bytes(NO_NSID), bytes(VETH)].concat();
    assert_eq!(answer(&all, 7), Some(Answer::Link(veth())));
    assert_eq!(answer(&all, 9), Some(Answer::Nsid(None)));
    assert_eq!(answer(&all, 11), None);
}

#[test]
fn a_name_with_odd_bytes_is_escaped() {
    let odd = bytes(&VETH.replace("6e6574746f764100", "6eff1b746f764100"));
    let Some(Answer::Link(link)) = answer(&odd, 7) else {
        panic!("no link");
    };
    assert_eq!(link.name, "n\\xff\\x1btovA");
}

/// The kernel gave the refusals above to just these.
#[test]
fn requests_are_as_the_kernel_takes_them() {
    let asked = "28000000 1200 0100 07000000 00000000 00000000 9f860100 00000000 00000000 08001d00 08000000";
    assert_eq!(link_request(99_999, 7), bytes(asked));
    let asked = "1c000000 5a00 0100 0a000000 00000000 00000000 08000200 00093d00";
    assert_eq!(nsid_request(4_000_000, 10), bytes(asked));
}

proptest! {
    #[test]
    fn no_damage_makes_it_panic(
        which in 0_usize..4,
        at in 0_usize..120,
        byte in any::<u8>(),
        length in 0_usize..120,
    ) {
        let mut damaged = bytes([VETH, NSID, NO_PROCESS, NO_LINK][which]);
        damaged.truncate(length);
        if let Some(place) = damaged.get_mut(at) {
            *place = byte;
        }
        for sequence in [7, 8, 10] {
            if let Some(Answer::Link(link)) = answer(&damaged, sequence) {
                prop_assert!(link.name.len() <= 4 * 8, "{link:?}");
            }
        }
    }
}
