#pragma once

#include <memory>

#include "tnt/comm/base/environment.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

/// Joins the job that the environment describes. Collective among all of its
/// ranks, blocking.
///
/// | ranks | TNT_TRANSPORT | transport |
/// |---|---|---|
/// | one | auto, shm | none |
/// | several on one host | auto, shm | shared memory |
/// | any number on one host | gpi2 | GPI-2 alone |
/// | on several hosts | auto, gpi2 | shared memory on each host, GPI-2 between them |
std::unique_ptr<Transport> join_job(const Environment& environment);

}  // namespace tnt::comm
