//! Where the pages of a mapping are to lie, and where they do.

use std::ops::Range;

use crate::error::{Args, Call, SysError};
use crate::{Mapping, page_size, seam};

/// How pages are spread over the nodes of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryPolicy {
    /// As the faulting thread's own policy says: its own node, by default.
    Default,
    /// On these nodes only.
    Bind,
    /// On these nodes in turn, page by page.
    Interleave,
    /// On the first of these nodes as long as it has memory.
    Preferred,
}

/// What is known of a page's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageNode {
    /// It lies on this node.
    On(u16),
    /// No page is there yet.
    Absent,
    /// The system gave this `errno` for it.
    Unknown(i32),
}

impl Mapping {
    /// Says where the pages of `[start, end)` are to lie when they are faulted.
    ///
    /// # Errors
    /// [`SysError::BadRange`]; [`SysError::Refused`]: `EINVAL` for a node that is not online or not
    /// allowed, `ENOSYS` or `EPERM` where the kernel or a sandbox has no such call.
    #[doc(alias = "mbind")]
    pub fn bind(
        &self,
        range: Range<usize>,
        policy: MemoryPolicy,
        nodes: &[u16],
    ) -> Result<(), SysError> {
        let address = self.address(&range)?;
        if address == 0 {
            return Ok(());
        }
        let (mode, nodes) = match policy {
            MemoryPolicy::Default => (libc::MPOL_DEFAULT, &[][..]),
            MemoryPolicy::Bind => (libc::MPOL_BIND, nodes),
            MemoryPolicy::Interleave => (libc::MPOL_INTERLEAVE, nodes),
            MemoryPolicy::Preferred => (libc::MPOL_PREFERRED, nodes),
        };
        let mut mask = vec![0_u64; nodes.iter().max().map_or(0, |node| *node as usize / 64 + 1)];
        for node in nodes {
            mask[*node as usize / 64] |= 1 << (node % 64);
        }
        // the kernel takes one off this number before it uses it
        let bits = if mask.is_empty() {
            0
        } else {
            mask.len() * 64 + 1
        };
        let bytes = range.len();
        let args = || {
            let mut nodes = nodes.to_vec();
            nodes.sort_unstable();
            Args::Nodes {
                address,
                bytes,
                nodes,
            }
        };
        seam::call(Call::Mbind, args, || {
            let mask = if mask.is_empty() {
                std::ptr::null()
            } else {
                mask.as_ptr()
            };
            // SAFETY: the range lies in this mapping; the mask has `bits` bits, rounded up to words.
            unsafe { libc::syscall(libc::SYS_mbind, address, bytes, mode, mask, bits, 0) }
        })?;
        Ok(())
    }

    /// On which nodes the pages at these byte offsets lie, in the order asked.
    ///
    /// # Errors
    /// [`SysError::BadRange`] for an offset outside; [`SysError::Refused`] where the kernel or a
    /// sandbox has no such call.
    #[doc(alias = "move_pages")]
    pub fn page_nodes(&self, offsets: &[usize]) -> Result<Vec<PageNode>, SysError> {
        let page = page_size();
        let mut pages = Vec::with_capacity(offsets.len());
        for &offset in offsets {
            let start = offset - offset % page;
            pages.push(self.address(&(start..start.saturating_add(page)))?);
        }
        let mut status = vec![-libc::EIO; pages.len()];
        if pages.is_empty() {
            return Ok(Vec::new());
        }
        let count = pages.len();
        seam::call(
            Call::MovePages,
            || Args::Pages { count },
            || {
                let nodes = std::ptr::null::<libc::c_int>();
                // SAFETY: both arrays have `count` elements; without nodes nothing moves.
                unsafe {
                    libc::syscall(
                        libc::SYS_move_pages,
                        0,
                        count,
                        pages.as_ptr(),
                        nodes,
                        status.as_mut_ptr(),
                        0,
                    )
                }
            },
        )?;
        Ok(status.into_iter().map(page_node).collect())
    }
}

fn page_node(status: libc::c_int) -> PageNode {
    match u16::try_from(status) {
        Ok(node) => PageNode::On(node),
        // ENOENT: nothing mapped; EFAULT: the shared zero page, or no mapping
        Err(_) if status == -libc::ENOENT || status == -libc::EFAULT => PageNode::Absent,
        Err(_) => PageNode::Unknown(-status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seam::Faults;

    #[test]
    fn an_untouched_page_is_absent_and_a_populated_one_has_a_node() {
        let page = page_size();
        let mut map = Mapping::reserve(2 * page).unwrap();
        map.commit(0..2 * page).unwrap();
        map.huge_pages(0..2 * page, crate::HugePages::Never).ok();
        map.fault_in(0..page).unwrap();
        match map.page_nodes(&[8, page]) {
            Ok(nodes) => {
                assert!(matches!(nodes[0], PageNode::On(_)), "{nodes:?}");
                assert_eq!(nodes[1], PageNode::Absent);
            }
            Err(error) => captures::skipped(&format!("{error}")),
        }
    }

    #[test]
    fn a_node_that_does_not_exist_is_refused_with_its_number() {
        let page = page_size();
        let map = Mapping::reserve(page).unwrap();
        let error = map
            .bind(0..page, MemoryPolicy::Bind, &[1023])
            .expect_err("no host of ours has a node 1023");
        assert_eq!(error.call(), Some(Call::Mbind));
        assert!(error.to_string().contains("nodes [1023]"), "{error}");
    }

    #[test]
    fn a_sandbox_without_mbind_gives_advice() {
        let page = page_size();
        let map = Mapping::reserve(page).unwrap();
        for (errno, words) in [
            (libc::EPERM, "first touch"),
            (libc::ENOSYS, "no NUMA support"),
        ] {
            let faults = Faults::new().fail(Call::Mbind, 1, errno);
            let _scope = faults.enter();
            let error = map.bind(0..page, MemoryPolicy::Bind, &[0]).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
        }
    }

    #[test]
    fn an_offset_outside_the_mapping_is_refused() {
        let map = Mapping::reserve(page_size()).unwrap();
        assert!(matches!(
            map.page_nodes(&[page_size()]),
            Err(SysError::BadRange { .. })
        ));
        assert!(map.page_nodes(&[usize::MAX]).is_err());
    }
}
