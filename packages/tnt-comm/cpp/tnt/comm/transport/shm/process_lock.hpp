#pragma once

namespace tnt::comm {

/// Liveness by a lock that the kernel releases when a process dies.
///
/// Every rank holds a POSIX record lock on one byte of the control segment's
/// file. The lock belongs to the process: it ends with it, however it ends,
/// and a forked child does not have it. It also ends when the process closes
/// *any* descriptor of that file, so there must be exactly one.

/// Locks byte `index` for this process. Returns false if another process
/// holds it.
bool try_lock_byte(int descriptor, int index);

/// True if another process holds the lock on byte `index`. This process' own
/// locks are not seen.
bool is_byte_locked_by_other(int descriptor, int index);

}  // namespace tnt::comm
