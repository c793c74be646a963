//! Records of a machine that scales as machines do.

use study::record::{NodeTime, Record, Role, SectionTime, WorkerTime};
use study::synthetic;

/// Numbers of threads.
const THREADS: [u64; 7] = [1, 2, 4, 8, 16, 32, 48];

/// Writers, with the ns that one thread takes for a struct page.
const WRITERS: [(&str, f64); 4] = [
    ("memset", 12.5),
    ("zero", 9.8),
    ("template", 9.1),
    ("stream", 4.4),
];

/// A whole study of `host`: every writer and the limit with 1 to 48 threads on 4 nodes.
pub(crate) fn scaling(host: &str, rounds: u64) -> Vec<Record> {
    let mut noise = Noise(1);
    let mut records = Vec::new();
    for round in 0..rounds {
        let mut place = 0;
        for threads in THREADS {
            let limit = [("limit", 4.2)];
            for (writer, ns) in limit.iter().chain(&WRITERS) {
                records.push(run(host, round, place, threads, writer, *ns, &mut noise));
                place += 1;
            }
        }
    }
    records
}

/// A matrix of `nodes` nodes: near memory is faster, and one pair was refused.
pub(crate) fn matrix(host: &str, nodes: u64) -> Vec<Record> {
    let mut records = Vec::new();
    for role in [Role::Matrix, Role::MatrixLimit] {
        for threads in 0..nodes {
            for memory in 0..nodes {
                let mut record = synthetic::record();
                record.study = "scaling".into();
                record.host.name = host.into();
                record.role = role;
                record.settings.nodes = vec![threads];
                record.settings.placement = format!("node:{memory}");
                record.settings.writer = if role == Role::Matrix {
                    "stream"
                } else {
                    "limit"
                }
                .into();
                record.write_ns = 300_000 + 130_000 * threads.abs_diff(memory) + 7000 * memory;
                if (threads, memory) == (nodes - 1, 0) {
                    record.refused = Some("node 0 has no memory left".into());
                    record.write_ns = 0;
                }
                records.push(record);
            }
        }
    }
    records
}

fn run(
    host: &str,
    round: u64,
    place: u64,
    threads: u64,
    writer: &str,
    ns: f64,
    noise: &mut Noise,
) -> Record {
    let mut record = synthetic::record();
    record.study = "scaling".into();
    record.host.name = host.into();
    record.host.cpus = 48;
    record.host.online_cpus = 48;
    record.round = round;
    record.place = place;
    record.began_ms += round * 5000 + place * 100;
    record.settings = synthetic::settings(threads, writer);
    if writer == "limit" {
        record.role = Role::Limit;
        record.fill = Some("stream-constant".into());
    }
    record.layout.nodes = 4;
    record.layout.memory = 384 << 30;
    record.layout.sections = 3072;
    record.layout.pages = 3072 * 32768;
    // what the cores give together, up to what the memory takes, less what they wait for each other
    let alone: f64 = ns / threads as f64;
    let memory: f64 = 0.32
        * if writer == "stream" || writer == "limit" {
            1.0
        } else {
            1.9
        };
    let time = (alone.powi(4) + memory.powi(4)).powf(0.25) * (1.0 + 0.0008 * threads as f64);
    let drift = 1.0 + 0.04 * (round as f64 / 12.0).sin();
    let outlier = if (round * 35 + place) % 371 == 17 {
        1.9
    } else {
        1.0
    };
    let total = time * record.layout.pages as f64 * drift * (1.0 + 0.03 * noise.next()) * outlier;
    record.write_ns = total as u64;
    record.nodes = (0..4)
        .map(|node| NodeTime {
            node,
            pages: record.layout.pages / 4,
            ns: record.write_ns,
        })
        .collect();
    record.workers = (0..threads)
        .map(|worker| WorkerTime {
            name: format!("n{}/w{}", worker * 4 / threads.max(4), worker % 12),
            cpu: worker,
            sections: 3072 / threads,
            pages: record.layout.pages / threads,
            busy_ns: record.write_ns - 1000,
        })
        .collect();
    record.sections = match round {
        0 => sections(threads, record.write_ns),
        _ => Vec::new(),
    };
    record
}

fn sections(threads: u64, total: u64) -> Vec<SectionTime> {
    let each = 3072 / threads;
    let slot = total / each;
    (0..each * threads)
        .map(|index| SectionTime {
            section: index,
            count: 1,
            worker: index / each,
            begin_ns: index % each * slot,
            ns: slot * 9 / 10 - index % 7 * slot / 40,
        })
        .collect()
}

/// Numbers from −1 to 1 that look random.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }
}
