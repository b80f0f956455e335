//! Unpacking restores any table; damaged tables are refused.

use proptest::prelude::*;

use super::*;

fn packed(rows: &Rows) -> Packed {
    pack(rows.iter().map(|row| row.as_deref()))
}

fn unpack_any(packed: &Packed) -> Result<Rows, Damaged> {
    unpack_within(packed, 1 << 10, 1 << 20)
}

/// Rows of one width; some are sums of later ones, and some nearly.
fn table_with_sums() -> impl Strategy<Value = (Rows, Vec<(usize, Vec<usize>)>)> {
    let row = |width| prop::option::of(prop::collection::vec(0..u64::MAX / 64, width));
    let rows = (0_usize..6).prop_flat_map(move |width| prop::collection::vec(row(width), 1..12));
    (rows, any::<u64>()).prop_map(|(mut rows, seed)| {
        let mut sums = Vec::new();
        let mut free: Vec<usize> = Vec::new();
        for whole in (0..rows.len()).rev() {
            let mut parts = Vec::new();
            if seed >> whole & 1 == 1 {
                parts.append(&mut free);
            }
            free.push(whole);
            if seed >> (whole + 20) & 1 == 1
                && let Some(mut sum) = rows[whole].clone()
            {
                sum.fill(seed >> 62);
                for part in parts.iter().filter_map(|&part| rows[part].as_ref()) {
                    for (sum, part) in sum.iter_mut().zip(part) {
                        *sum = sum.saturating_add(*part);
                    }
                }
                rows[whole] = Some(sum);
            }
            if !parts.is_empty() {
                sums.push((whole, parts));
            }
        }
        (rows, sums)
    })
}

proptest! {
    #[test]
    fn integers_are_read_together_and_passed_over_as_one_by_one(
        all in prop::collection::vec(prop_oneof![3 => 0_u64..128, 1 => any::<u64>()], 0..60),
        passed in any::<prop::sample::Index>(),
    ) {
        let mut bytes = Vec::new();
        all.iter().for_each(|&number| put(&mut bytes, number));
        let passed = passed.index(all.len() + 1);
        let mut reader = Reader(&bytes);
        prop_assert_eq!(reader.skip(passed), Ok(()));
        let mut rest = vec![0; all.len() - passed];
        prop_assert_eq!(reader.numbers(&mut rest), Ok(()));
        prop_assert_eq!(rest, &all[passed..]);
        prop_assert_eq!(reader.skip(1), Err(Damaged));
    }

    #[test]
    fn a_table_comes_back(rows: Vec<Option<Vec<u64>>>) {
        prop_assert_eq!(unpack_any(&packed(&rows)), Ok(rows));
    }

    #[test]
    fn a_table_whose_rows_are_sums_or_are_not_comes_back((rows, sums) in table_with_sums()) {
        let packed = pack_with_sums(rows.iter().map(|row| row.as_deref()), &sums);
        prop_assert_eq!(unpack_any(&packed), Ok(rows));
    }

    #[test]
    fn no_bytes_bring_it_down(bytes: Vec<u8>, width in 0_usize..40) {
        let _ = unpack(&Packed(bytes), width);
    }
}

#[test]
fn a_sum_costs_next_to_nothing() {
    let parts: Rows = (1..9)
        .map(|row| Some((0..128).map(|cpu| row * 1_000_003 + cpu).collect()))
        .collect();
    let sum = |cpu: usize| parts.iter().flatten().map(|row| row[cpu]).sum::<u64>();
    let mut rows = vec![Some((0..128).map(sum).collect())];
    rows.extend(parts.iter().cloned());
    let sums = [(0, (1..9).collect())];
    let whole = pack_with_sums(
        rows.iter().map(|row: &Option<Vec<u64>>| row.as_deref()),
        &sums,
    );
    assert!(whole.0.len() < packed(&parts).0.len() + 20);
    assert_eq!(unpack(&whole, 128), Ok(rows));
}

#[test]
fn a_cut_table_is_damaged_wherever_it_is_cut() {
    let whole = packed(&vec![
        Some(vec![0, 0, 7, 300, 0]),
        None,
        Some(vec![300, 301]),
    ])
    .0;
    for end in 0..whole.len() {
        assert_eq!(
            unpack_any(&Packed(whole[..end].to_vec())),
            Err(Damaged),
            "{end}"
        );
    }
    for more in [&[0][..], &[0, 1, 0], &[1, 0], &[9, 0], &[0, 9]] {
        let longer = Packed([&whole, more].concat());
        assert_eq!(unpack_any(&longer), Err(Damaged), "{more:?}");
    }
}

#[test]
fn a_claim_of_endless_zeros_takes_no_memory() {
    let mut bytes = vec![1, 1];
    put(&mut bytes, u64::MAX);
    bytes.extend([0, 0]);
    put(&mut bytes, u64::MAX - 2);
    assert_eq!(unpack_any(&Packed(bytes)), Err(Damaged));
    let mut bytes = vec![1, 1];
    put(&mut bytes, 1 << 20);
    bytes.push(64);
    assert_eq!(unpack_any(&Packed(bytes)), Err(Damaged));
}

#[test]
fn a_row_of_another_width_and_a_row_too_many_are_refused() {
    let row = |width| Some(vec![0; width]);
    assert!(unpack(&packed(&vec![row(3); MOST_ROWS]), 3).is_ok());
    for rows in [
        vec![row(4)],
        vec![row(3), row(2)],
        vec![row(3); MOST_ROWS + 1],
    ] {
        assert_eq!(unpack(&packed(&rows), 3), Err(Damaged));
    }
}

#[test]
fn zeros_and_round_values_are_cheap() {
    assert!(packed(&vec![Some(vec![0; 1000]); 10]).0.len() < 70);
    let ticks = vec![Some(vec![470_000_000, 10_000_000, 20_000_000])];
    assert_eq!(packed(&ticks).0.len(), 4 + 1 + 2 + 3);
    assert_eq!(unpack(&packed(&ticks), 3), Ok(ticks));
}
