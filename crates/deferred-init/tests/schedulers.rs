//! Every section is visited once, whatever the scheduler, the nodes and the workers.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use deferred_init::plan::{Piece, Plan, PlanRun, SectionShape, Work};
use deferred_init::schedule::{
    self, Deque, Flow, HandOut, Padata, Scheduler, Static, Tally, simulate,
};
use deferred_init::topology::{Topology, presets, synthetic};
use deferred_init::workers::{Crew, Pinning, Seat, Start, WorkerChoice, choose};
use memblock::NodeId;
use proptest::prelude::*;

const SHAPE: SectionShape = SectionShape {
    pages: 0x8000,
    bytes: 2 << 20,
};

fn run(node: u16, zone: u8, sections: std::ops::Range<u64>) -> PlanRun {
    PlanRun {
        node: NodeId::new(node),
        zone,
        sections,
    }
}

fn seats(topology: &Topology, threads: Option<usize>) -> Vec<Seat> {
    let wishes = WorkerChoice {
        threads,
        pinning: Pinning::Off,
        oversubscribe: true,
        ..WorkerChoice::default()
    };
    choose(topology, &wishes).unwrap()
}

/// Sections in the order of visits, with the worker.
fn visits(
    scheduler: &dyn Scheduler,
    crew: &Crew,
    work: &Work<'_>,
    until: u64,
) -> (Vec<(u64, usize)>, Tally) {
    let seen = Mutex::new(Vec::new());
    let count = AtomicU64::new(0);
    let start = Start::new(work.workers());
    let tally = scheduler.run(crew, work, &start, &|worker, piece: Piece| {
        let sections = work.shards(&piece).flat_map(|shard| shard.sections);
        seen.lock()
            .unwrap()
            .extend(sections.map(|section| (section, worker)));
        match count.fetch_add(1, Ordering::Relaxed) + 1 >= until {
            true => Flow::Stop,
            false => Flow::Continue,
        }
    });
    (seen.into_inner().unwrap(), tally)
}

fn schedulers() -> Vec<&'static dyn Scheduler> {
    let mut all = schedule::all().to_vec();
    all.extend([
        &Deque::ACROSS_NODES as &dyn Scheduler,
        &Padata::V6_1,
        &Padata::V6_12,
    ]);
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn every_section_is_visited_once(
        cuts in proptest::collection::btree_set(0_u64..120, 2..14),
        nodes in proptest::collection::vec(0_u16..5, 14),
        threads in prop_oneof![Just(1_usize), Just(2), Just(3), Just(5), Just(8)],
        grain in 1_u64..5,
    ) {
        // node 3 has no CPUs, node 4 is not a node of the host at all
        let host = synthetic::parse("numa:3(memory=1G) core:2 +numa(memory=1G)").unwrap();
        let cuts: Vec<u64> = cuts.into_iter().collect();
        let runs = cuts
            .windows(2)
            .zip(&nodes)
            .filter(|(_, node)| **node != 2)
            .map(|(cut, node)| run(*node, (cut[0] % 3) as u8, cut[0]..cut[1]));
        let plan = Plan::from_runs(SHAPE, runs).unwrap();
        let seats = seats(&host, Some(threads));
        let crew = Crew::new(&seats, Pinning::Off).unwrap();
        let work = Work::new(&plan, &host, &seats, grain);
        let mut wanted: Vec<u64> = plan.runs().iter().flat_map(|run| run.sections.clone()).collect();
        wanted.sort_unstable();
        for scheduler in schedulers() {
            let (seen, _) = visits(scheduler, &crew, &work, u64::MAX);
            let mut sections: Vec<u64> = seen.iter().map(|(section, _)| *section).collect();
            sections.sort_unstable();
            prop_assert_eq!(&sections, &wanted, "{}", scheduler.name());
        }
    }
}

#[test]
fn a_node_is_done_by_its_own_workers_and_one_without_by_the_nearest() {
    let host = presets::by_name("snc-pmem").unwrap().topology().unwrap();
    let plan = Plan::from_runs(
        SHAPE,
        [
            run(0, 2, 0..10),
            run(1, 2, 10..20),
            run(2, 2, 20..30),
            run(3, 2, 30..40),
            run(4, 2, 40..50),
            run(5, 2, 50..60),
        ],
    )
    .unwrap();
    let seats = seats(&host, Some(8));
    let crew = Crew::new(&seats, Pinning::Off).unwrap();
    let work = Work::new(&plan, &host, &seats, 1);
    let serves: Vec<Vec<u16>> = work
        .groups()
        .iter()
        .map(|group| group.serves.iter().map(|node| node.get()).collect())
        .collect();
    assert_eq!(serves, [vec![0, 4], vec![1], vec![2, 5], vec![3]]);
    for scheduler in schedule::all() {
        let (seen, tally) = visits(*scheduler, &crew, &work, u64::MAX);
        assert_eq!(tally.cross_node_steals, 0, "{}", scheduler.name());
        for (section, worker) in seen {
            let node = seats[worker].node.get();
            let group = work.groups().iter().find(|g| g.node.get() == node).unwrap();
            let owner = (section / 10) as u16;
            assert!(
                group.serves.contains(&NodeId::new(owner)),
                "{}: section {section} of node {owner} by {}",
                scheduler.name(),
                seats[worker]
            );
        }
    }
}

#[test]
fn stealing_across_nodes_is_counted() {
    let host = synthetic::parse("numa:2 core:1").unwrap();
    // node 1 has nothing of its own
    let plan = Plan::from_runs(SHAPE, [run(0, 2, 0..64)]).unwrap();
    let seats = seats(&host, None);
    let work = Work::new(&plan, &host, &seats, 1);
    let (shares, tally) = simulate(&Deque::ACROSS_NODES, &work);
    assert_eq!(shares.iter().sum::<u64>(), 64);
    assert!(shares[1] > 16, "{shares:?}");
    assert!(tally.cross_node_steals > 0 && tally.cross_node_sections >= shares[1]);
    let (shares, tally) = simulate(&Deque::WITHIN_NODE, &work);
    assert_eq!((shares, tally.cross_node_steals), (vec![64, 0], 0));
}

#[test]
fn a_stop_ends_all_workers() {
    let host = synthetic::parse("numa:2 core:3").unwrap();
    let plan = Plan::from_runs(
        SHAPE,
        [run(0, 1, 0..8), run(0, 2, 8..500), run(1, 2, 500..900)],
    )
    .unwrap();
    let seats = seats(&host, None);
    let crew = Crew::new(&seats, Pinning::Off).unwrap();
    let work = Work::new(&plan, &host, &seats, 1);
    // a share of `static` is one piece: who visits it stops inside it, as the engine does
    let in_pieces = schedulers().into_iter().filter(|it| it.name() != "static");
    for scheduler in in_pieces {
        let (seen, _) = visits(scheduler, &crew, &work, 5);
        assert!(
            seen.len() < 900,
            "{}: {} visits",
            scheduler.name(),
            seen.len()
        );
    }
}

#[test]
fn more_workers_than_sections_is_all_right() {
    let host = synthetic::parse("numa:2 core:8").unwrap();
    let plan = Plan::from_runs(SHAPE, [run(1, 2, 7..9)]).unwrap();
    let seats = seats(&host, None);
    let crew = Crew::new(&seats, Pinning::Off).unwrap();
    let work = Work::new(&plan, &host, &seats, 1);
    for scheduler in schedulers() {
        assert_eq!(
            visits(scheduler, &crew, &work, u64::MAX).0.len(),
            2,
            "{}",
            scheduler.name()
        );
    }
    let nothing = Plan::from_runs(SHAPE, []).unwrap();
    let work = Work::new(&nothing, &host, &seats, 1);
    for scheduler in schedulers() {
        assert_eq!(visits(scheduler, &crew, &work, u64::MAX).0, []);
    }
}

#[test]
fn a_visitor_that_panics_leaves_nobody_waiting() {
    let host = synthetic::parse("numa:2 core:2").unwrap();
    let plan = Plan::from_runs(
        SHAPE,
        [run(0, 1, 0..1), run(0, 2, 1..50), run(1, 2, 50..90)],
    )
    .unwrap();
    let seats = seats(&host, None);
    let crew = Crew::new(&seats, Pinning::Off).unwrap();
    let work = Work::new(&plan, &host, &seats, 1);
    for scheduler in schedulers() {
        let start = Start::new(work.workers());
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            scheduler.run(&crew, &work, &start, &|_, _| panic!("on purpose"))
        }));
        assert!(outcome.is_err(), "{}", scheduler.name());
    }
}

#[test]
fn every_cpu_of_large_hosts_gets_work_when_there_is_enough() {
    for (name, cpus, per_node) in [("xeon-8s-448", 448, 12288), ("superdome-64n", 2048, 8192)] {
        let host = presets::by_name(name).unwrap().topology().unwrap();
        let nodes = host.nodes.len() as u64;
        let runs =
            (0..nodes).map(|node| run(node as u16, 2, node * per_node..(node + 1) * per_node));
        let plan = Plan::from_runs(SHAPE, runs).unwrap();
        let seats = seats(&host, None);
        assert_eq!(seats.len(), cpus);
        let work = Work::new(&plan, &host, &seats, 1);
        let handed: [(&str, &dyn HandOut); 3] = [
            ("static", &Static),
            ("padata", &Padata::LATEST),
            ("deque", &Deque::WITHIN_NODE),
        ];
        for (scheduler, hand_out) in handed {
            let (shares, _) = simulate(hand_out, &work);
            assert_eq!(shares.iter().sum::<u64>(), nodes * per_node);
            let least = shares.iter().min().unwrap();
            assert!(*least > 0, "{name}, {scheduler}: an idle CPU");
        }
    }
}

#[test]
fn chunks_of_padata_are_those_of_the_kernel() {
    // a span of 64 sections from section 2, 4 CPUs: 16 chunks of 4 sections that end at multiples of 4
    let host = synthetic::parse("numa core:4").unwrap();
    let plan = Plan::from_runs(SHAPE, [run(0, 2, 2..30), run(0, 2, 40..66)]).unwrap();
    let seats = seats(&host, None);
    let work = Work::new(&plan, &host, &seats, 100);
    let source = Padata::LATEST.begin(&work);
    let mut hand = source.hand(0);
    let mut chunks = Vec::new();
    while let schedule::Next::Piece(piece) = hand.next() {
        let shards: Vec<_> = work.shards(&piece).map(|shard| shard.sections).collect();
        chunks.push(shards);
    }
    let wanted: Vec<Vec<std::ops::Range<u64>>> = vec![
        vec![2..4],
        vec![4..8],
        vec![8..12],
        vec![12..16],
        vec![16..20],
        vec![20..24],
        vec![24..28],
        vec![28..30],
        vec![40..44],
        vec![44..48],
        vec![48..52],
        vec![52..56],
        vec![56..60],
        vec![60..64],
        vec![64..66],
    ];
    assert_eq!(chunks, wanted);
}
