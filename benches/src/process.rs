//! What the system says about a process and about itself.

use std::{fs, time::Duration};

use anyhow::Context as _;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Ten thousand connections need as many descriptors.
pub(crate) fn raise_descriptor_limit() -> anyhow::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    Ok(setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    )?)
}

/// Says what the figures were measured on.
pub(crate) fn describe_machine() -> anyhow::Result<()> {
    let cpu = fs::read_to_string("/proc/cpuinfo")?;
    let model = cpu
        .lines()
        .find_map(|l| l.strip_prefix("model name"))
        .map_or("unknown", |l| l.trim_start_matches([' ', '\t', ':']));
    let cores = std::thread::available_parallelism()?;
    let load = fs::read_to_string("/proc/loadavg")?;
    println!(
        "machine: {cores} cores, {model}; load {}",
        load.split(' ').next().unwrap_or("?")
    );
    Ok(())
}

/// The memory that a process costs, in bytes: pages that it shares with others count in proportion.
pub(crate) fn pss(pid: u32) -> anyhow::Result<u64> {
    field(&pid.to_string(), "smaps_rollup", "Pss:")
}

/// The most resident memory that this process ever had, in bytes.
pub(crate) fn peak() -> anyhow::Result<u64> {
    field("self", "status", "VmHWM:")
}

/// The same for another process.
pub(crate) fn peak_of(pid: u32) -> anyhow::Result<u64> {
    field(&pid.to_string(), "status", "VmHWM:")
}

/// Lets the peak of a process begin anew.
pub(crate) fn forget_peak(pid: u32) -> anyhow::Result<()> {
    Ok(fs::write(format!("/proc/{pid}/clear_refs"), "5")?)
}

fn field(process: &str, file: &str, field: &'static str) -> anyhow::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/{file}"))?;
    let line = text
        .lines()
        .find_map(|l| l.strip_prefix(field))
        .context(field)?;
    let kib: u64 = line.trim().trim_end_matches(" kB").trim().parse()?;
    Ok(kib * 1024)
}

/// Processor time that a process has used.
pub(crate) fn cpu(pid: u32) -> anyhow::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name in parentheses may contain spaces; fields are counted after it.
    let fields: Vec<&str> = stat
        .rsplit(") ")
        .next()
        .context("stat")?
        .split(' ')
        .collect();
    let ticks: u64 = fields.get(11).context("utime")?.parse::<u64>()?
        + fields.get(12).context("stime")?.parse::<u64>()?;
    Ok(Duration::from_millis(
        ticks * 1000 / rustix::param::clock_ticks_per_second(),
    ))
}

pub(crate) fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
