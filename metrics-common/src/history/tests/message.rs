//! A history as a message: decoding restores it, and inconsistent messages are refused.

use super::*;
use crate::history::message::{GridMessage, SeriesMessage, TopMessage};
use crate::packed::{self, Damaged, Packed};

#[test]
fn a_message_brings_all_of_it_across() {
    let mut history = filled(50, &[0, 3], 1_234);
    let back = History::from_message(&info(50), &history.to_message()).unwrap();
    assert_eq!(back.points(), history.points());
    for point in 0..back.points() {
        assert_eq!(back.point_ms(point), history.point_ms(point));
        assert_eq!(
            back.component_cpus(RX, point),
            history.component_cpus(RX, point)
        );
        assert_eq!(back.component_cpus(RX + 1, point), None);
    }
    assert_eq!(back.grids, history.grids);
    // Both continue alike, from the same snapshot.
    let mut back = back;
    for sequence in 1_230..1_300 {
        let next = snapshot(sequence, 50, &[0, 3], 0.7);
        history.push(&next);
        back.push(&next);
    }
    assert_eq!(back.points(), history.points());
    assert_eq!(back.grids, history.grids);
    assert_eq!(back.series, history.series);
}

#[test]
fn an_empty_history_travels_too() {
    let empty = History::new(&info(500));
    let back = History::from_message(&info(500), &empty.to_message());
    assert_eq!(back, Ok(empty));
}

#[test]
fn a_message_that_contradicts_itself_is_refused() {
    let read = |message: &HistoryMessage| History::from_message(&info(500), message);
    let good = filled(500, &[0, 1], 20).to_message();
    assert!(read(&good).is_ok());
    for (index, spoil) in [
        |message: &mut HistoryMessage| message.grids[0].rows.push(7),
        |message: &mut HistoryMessage| message.grids[0].rows.reverse(),
        |message: &mut HistoryMessage| message.grids[0].codes.0.clear(),
        |message: &mut HistoryMessage| message.grids[0].layers.truncate(5),
        |message: &mut HistoryMessage| message.grids[0].column_ns = 0,
        |message: &mut HistoryMessage| message.grids[0].times.0 = vec![1, 0],
        |message: &mut HistoryMessage| message.series.values.0.truncate(9),
        |message: &mut HistoryMessage| message.series.names.truncate(9),
        |message: &mut HistoryMessage| message.series.units.clear(),
        |message: &mut HistoryMessage| message.times.0 = vec![1, 0],
        |message: &mut HistoryMessage| message.times = times_of(19),
        |message: &mut HistoryMessage| message.under_way.cpus = vec![0, 1],
        |message: &mut HistoryMessage| message.point_ns = 0,
    ]
    .into_iter()
    .enumerate()
    {
        let mut bad = good.clone();
        spoil(&mut bad);
        assert!(read(&bad).is_err(), "{index}");
    }
}

/// Times of this many half seconds.
fn times_of(points: u64) -> Packed {
    filled(500, &[0], points).to_message().times
}

#[test]
fn more_points_than_a_history_holds_are_damage() {
    let mut message = filled(500, &[0], 1).to_message();
    let most = vec![0_u64; POINTS + 1];
    message.times = packed::pack([Some(most.as_slice()); 2].into_iter());
    message.series = SeriesMessage::default();
    assert_eq!(History::from_message(&info(500), &message), Err(Damaged));
}

/// The message of a daemon with other sections, rows and units.
#[test]
fn what_the_reader_does_not_know_is_passed_over_and_what_it_misses_has_no_values() {
    let history = filled(500, &[0, 1], 20);
    let mut message = history.to_message();
    let stranger = GridMessage {
        section: "weather".to_owned(),
        ..message.grids[0].clone()
    };
    message.grids.push(stranger);
    message.grids[0].layers[RX] = "hail".to_owned();
    let rx = &mut message.series.names[RX];
    assert_eq!(rx, "cost/send_wait");
    *rx = "weather/hail".to_owned();
    let units = &mut message.series.units;
    let watts = units.iter_mut().find(|unit| *unit == "watts");
    *watts.unwrap() = "horses".to_owned();
    message.tops.push(TopMessage {
        name: "owners/clouds".to_owned(),
        names: Vec::new(),
        points: Packed::default(),
    });

    let mut read = History::from_message(&info(500), &message).unwrap();
    assert_eq!((read.points(), read.columns()), (20, 20));
    assert_eq!(read.component_cpus(RX, 7), None);
    assert_eq!(read.cell(7, RX, 0), None);
    assert_eq!(read.network_watts(7), None);
    assert_eq!(read.component_cpus(0, 7), history.component_cpus(0, 7));
    assert_eq!(read.cell(7, 0, 0), history.cell(7, 0, 0));
    read.push(&snapshot(21, 500, &[0, 1], 0.25));
    assert_eq!(read.component_cpus(RX, 20), Some(0.5));
    assert!(read.cell(20, RX, 0).is_some());

    message.grids.clear();
    message.series = SeriesMessage {
        values: packed::pack::<u64>([].into_iter()),
        ..SeriesMessage::default()
    };
    let read = History::from_message(&info(500), &message).unwrap();
    assert_eq!((read.points(), read.columns()), (20, 0));
    assert_eq!((read.cpus(), read.mode_cpus(3, 7)), (&[][..], None));
}

#[test]
fn rankings_travel_too() {
    let with_top = || {
        let mut history = History::new(&info(500));
        history.tops.push(Top::new("owners", 0, "processes"));
        history
    };
    let mut history = with_top();
    for sequence in 1..=30 {
        history.push(&snapshot(sequence, 500, &[0], 0.1));
        // No section fills it: remove the empty point that it got.
        history.tops[0].points.pop_back();
        let amounts = [("curl", sequence), ("nginx", 7), ("idle", 0)];
        history.tops[0].rank((sequence % 5 > 0).then(|| amounts.to_vec()));
    }
    let bytes = crate::codec::encode(&history.to_message()).unwrap();
    let message: HistoryMessage = crate::codec::decode(&bytes).unwrap();
    let mut back = with_top();
    back.fill(&message).unwrap();
    assert_eq!(back, history);

    let mut without = with_top();
    let mut missing = message.clone();
    missing.tops.clear();
    without.fill(&missing).unwrap();
    assert_eq!(
        without.top("owners/processes").unwrap().ranking(0..30),
        None
    );

    for (index, spoil) in [
        |message: &mut TopMessage| message.names.truncate(1),
        |message: &mut TopMessage| message.names.resize(2_000, String::new()),
        |message: &mut TopMessage| message.names[0] = "x".repeat(300),
        |message: &mut TopMessage| message.points = times_of(30),
        |message: &mut TopMessage| message.points = spoilt(&message.points, 1, |row| row[4] = 1),
        |message: &mut TopMessage| message.points = spoilt(&message.points, 1, |row| row[3] = 11),
        |message: &mut TopMessage| message.points = spoilt(&message.points, 1, |row| row[3] = 1),
        |message: &mut TopMessage| {
            message.points = spoilt(&message.points, 3, |row| row.truncate(9))
        },
        |message: &mut TopMessage| {
            message.points = spoilt(&message.points, 0, |row| row.truncate(9))
        },
    ]
    .into_iter()
    .enumerate()
    {
        let mut bad = message.clone();
        spoil(&mut bad.tops[0]);
        assert!(with_top().fill(&bad).is_err(), "{index}");
    }
}

/// The table with a row changed.
fn spoilt(table: &Packed, row: usize, spoil: impl Fn(&mut Vec<u64>)) -> Packed {
    let mut rows = packed::unpack_within(table, 4, 1 << 10).unwrap();
    spoil(rows[row].as_mut().unwrap());
    packed::pack(rows.iter().map(Option::as_deref))
}
