#pragma once

#include <memory>

#include "tnt/comm/transport/rma/bootstrap/bootstrap.hpp"

namespace tnt::comm {

/// The end of rank 0, to which all others connect; see start_bootstrap().
std::unique_ptr<Bootstrap> listen_as_hub(BootstrapPlace place, const Deadline& deadline);

}  // namespace tnt::comm
