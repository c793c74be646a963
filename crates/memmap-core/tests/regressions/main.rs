//! Bugs of the past, one file each: what went wrong, and a test that would have shown it.

#[path = "../support/mod.rs"]
mod support;
#[path = "../support/table.rs"]
mod table;

mod a_lost_race_gave_the_winners_claim_away;
mod a_page_on_two_nodes_lost_its_zone_to_the_later_mark;
mod deferred_pages_of_interleaved_nodes_were_counted_together;
mod holes_were_linked_to_zone_zero;
mod mirrored_memory_was_in_two_zones_at_once;
mod reserved_pages_outside_memory_were_never_written;
mod reserved_pages_over_two_nodes_got_one_node;
mod reserved_ranges_were_unmarked_because_max_mapnr_came_late;
mod skipping_to_the_next_memory_left_holes_unwritten;
mod the_tail_of_the_last_section_was_poison;
