//! Policies and the factors that mean nothing to them.
//!
//! Nobody schedules what is written when it is asked for, and nobody places it: it is touched by whoever
//! asks. A design that varies such a factor under such a policy would measure the same run under
//! several names, so it is refused.

use deferred_init::engine::Placement;
use deferred_init::policy::Policy;

use super::value::ticked;
use super::{Combine, Design, Place};

/// A policy that a design combines with what means nothing to it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "policy: `{policy}` with {with} means nothing: {why}; allowed with `{policy}`: {allowed} (or \
     factors = \"one-at-a-time\" with another policy first)"
)]
pub struct Senseless {
    /// The policy.
    pub policy: Policy,
    /// What it is combined with.
    pub with: String,
    /// Why that means nothing.
    pub why: &'static str,
    /// What may be combined with it.
    pub allowed: String,
}

/// Where struct pages may lie under a policy.
fn placements(policy: Policy) -> &'static [Placement] {
    match policy {
        Policy::OnDemand | Policy::Lazy => &[Placement::FirstTouch],
        _ => &Placement::ALL,
    }
}

/// Whether somebody decides who writes what.
fn is_scheduled(policy: Policy) -> bool {
    !matches!(policy, Policy::OnDemand | Policy::Lazy)
}

impl Design {
    /// Every policy that is combined with what means nothing to it.
    pub fn senseless(&self) -> Vec<Senseless> {
        let meet = |one: usize, other: usize| match self.combine {
            Combine::Full => true,
            Combine::OneAtATime => one == 0 || other == 0,
        };
        let mut found = Vec::new();
        for (at, &policy) in self.policies.iter().enumerate() {
            // on memory that was touched before, all of them mean something
            if policy == Policy::Eager {
                continue;
            }
            let allowed = placements(policy);
            for (other, place) in self.placements.iter().enumerate() {
                let takes = matches!(place, Place::By(placement) if allowed.contains(placement));
                if takes || !meet(at, other) {
                    continue;
                }
                found.push(Senseless {
                    policy,
                    with: format!("placement `{place}`"),
                    why: match place {
                        Place::By(_) => "its struct pages lie with whoever touches them first",
                        Place::Node(_) => "a boot has nodes of its own, not one of the host's",
                    },
                    allowed: format!(
                        "placement {}",
                        ticked(allowed.iter().map(|placement| placement.name()))
                    ),
                });
            }
            let schedulers = (0..self.schedulers.len()).filter(|other| meet(at, *other));
            let schedulers = schedulers.count();
            if !is_scheduled(policy) && schedulers > 1 {
                found.push(Senseless {
                    policy,
                    with: format!("{schedulers} schedulers"),
                    why: "sections are written by whoever asks for them",
                    allowed: "one scheduler".to_owned(),
                });
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deferred_init::schedule;

    fn place(text: &str) -> Place {
        text.parse().unwrap()
    }

    fn told(design: &Design) -> Vec<String> {
        let all = design.senseless().into_iter();
        all.map(|one| format!("{} with {}", one.policy, one.with))
            .collect()
    }

    #[test]
    fn what_means_nothing_to_a_policy_is_told_where_the_two_meet() {
        let mut design = Design {
            policies: Policy::ALL.to_vec(),
            ..Design::default()
        };
        assert_eq!(told(&design), [""; 0]);
        design.placements = vec![Place::FIRST_TOUCH, place("bind"), place("node:0")];
        design.schedulers = schedule::all().to_vec();
        assert_eq!(
            told(&design),
            [
                "deferred with placement `node:0`",
                "on-demand with placement `bind`",
                "on-demand with placement `node:0`",
                "on-demand with 4 schedulers",
                "lazy with placement `bind`",
                "lazy with placement `node:0`",
                "lazy with 4 schedulers",
            ]
        );
        design.combine = Combine::OneAtATime;
        assert_eq!(told(&design), [""; 0], "eager comes first");
        design.policies.reverse();
        assert_eq!(
            told(&design),
            [
                "lazy with placement `bind`",
                "lazy with placement `node:0`",
                "lazy with 4 schedulers",
            ]
        );
        let message = design.senseless()[0].to_string();
        assert!(
            message.contains("allowed with `lazy`: placement `first-touch`"),
            "{message}"
        );
    }
}
