fn main() -> anyhow::Result<()> {
    use netto::{kernel::system::Roots, measurement::*};
    let hz = std::env::args().nth(1).map_or(1000, |s| s.parse().unwrap());
    let mut m = start(&Settings {
        frequency_hz: hz,
        user_period: std::time::Duration::from_millis(500),
        roots: Roots {
            proc_root: "/proc".into(),
            sys_root: "/sys".into(),
        },
    })?;
    println!("{:#?}", m.info.notes);
    println!("{:#?}", m.info.probes);
    for _ in 0..std::env::args().nth(2).map_or(4, |s| s.parse().unwrap()) {
        std::thread::sleep(std::time::Duration::from_millis(500));
        let s = m.source.next_snapshot()?;
        println!(
            "--- {} interval {} taken {:?} lost {:?} own {:?}",
            s.sequence, s.interval_ns, s.stacks_taken, s.stacks_lost, s.own
        );
        for (c, row) in m.info.components.iter().zip(&s.components) {
            if let Some(row) = row
                && row.iter().any(|v| *v > 0)
            {
                println!(
                    "{:24} {:?} {:.2}%",
                    c.slug,
                    row.iter()
                        .map(|v| (*v as f64 / s.interval_ns as f64 * 1e4).round() / 100.)
                        .collect::<Vec<_>>(),
                    row.iter().sum::<u64>() as f64 / s.capacity_ns() as f64 * 100.
                );
            }
        }
    }
    Ok(())
}
