//! The benchmarks, as they are asked for.

use clap::ValueEnum;

/// What to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Benchmark {
    /// What bulk TCP and small packets on one CPU of this machine lose
    Felt,
    /// What bulk TCP between two CPUs loses, and how often they wake each other
    FeltTwoCpus,
    /// What streams of bulk TCP lose that begin after a pause, and how often they are slow to their end
    Starts,
    /// What each part of netto's price costs there, by doses of it
    Doses,
    /// An idle machine, and the start
    Idle,
    /// What counting a packet to its flow takes
    Flows,
    /// Packets from few to the most and back
    Sweep,
    /// Throughput, each probe and the daemon in a guest whose time is instructions
    Guest,
    /// Such a guest that is idle, and ones with many CPUs, whose time is no instructions
    GuestIdle,
    /// The sweep in a guest whose time is instructions
    GuestSweep,
    /// What the page costs a browser
    Page,
    /// Steps of user space, in loops
    Pure,
}

impl Benchmark {
    /// Whether it loads programs into this machine's kernel.
    pub fn needs_root(self) -> bool {
        matches!(
            self,
            Benchmark::Felt
                | Benchmark::FeltTwoCpus
                | Benchmark::Starts
                | Benchmark::Doses
                | Benchmark::Flows
                | Benchmark::Idle
                | Benchmark::Sweep
        )
    }

    /// Whether it is measured in a guest.
    pub fn is_in_guest(self) -> bool {
        matches!(
            self,
            Benchmark::Guest | Benchmark::GuestIdle | Benchmark::GuestSweep
        )
    }

    /// As on the command line.
    pub fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }
}
