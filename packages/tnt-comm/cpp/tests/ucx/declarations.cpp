// Compiles if what this library declares of UCX is what UCX' own headers say. Compiled by
// tests/headers/test_ucx_declarations.py, with the headers of the UCX that is installed.

#include <ucp/api/ucp.h>
#include <uct/api/uct.h>

#include <cstddef>
#include <type_traits>

#include "tnt/comm/transport/rma/ucx/ucx_api.hpp"

namespace ours = tnt::comm::ucx;

#define SAME_FIELD(OURS, FIELD, THEIRS, THEIR_FIELD)                     \
  static_assert(offsetof(OURS, FIELD) == offsetof(THEIRS, THEIR_FIELD)); \
  static_assert(sizeof(OURS::FIELD) == sizeof(THEIRS::THEIR_FIELD))
#define SAME_VALUE(OURS, THEIRS) \
  static_assert(static_cast<long long>(OURS) == static_cast<long long>(THEIRS))
// Callers hand over room for all fields, also for those that they do not know.
#define IS_LARGE_ENOUGH(OURS, THEIRS) static_assert(sizeof(OURS) >= sizeof(THEIRS))

static_assert(sizeof(ours::Status) == sizeof(ucs_status_t));
SAME_VALUE(ours::kOk, UCS_OK);
SAME_VALUE(ours::kInProgress, UCS_INPROGRESS);
SAME_VALUE(ours::kBusy, UCS_ERR_BUSY);
SAME_VALUE(ours::kLastError, UCS_ERR_LAST);

IS_LARGE_ENOUGH(ours::ContextParameters, ucp_params_t);
SAME_FIELD(ours::ContextParameters, mask, ucp_params_t, field_mask);
SAME_FIELD(ours::ContextParameters, features, ucp_params_t, features);
SAME_FIELD(ours::ContextParameters, num_endpoints, ucp_params_t, estimated_num_eps);
SAME_VALUE(ours::ContextParameters::kHasFeatures, UCP_PARAM_FIELD_FEATURES);
SAME_VALUE(ours::ContextParameters::kHasNumEndpoints, UCP_PARAM_FIELD_ESTIMATED_NUM_EPS);
SAME_VALUE(ours::ContextParameters::kRemoteMemory, UCP_FEATURE_RMA);
SAME_VALUE(ours::ContextParameters::kWakeup, UCP_FEATURE_WAKEUP);
SAME_VALUE(ours::ContextParameters::kActiveMessages, UCP_FEATURE_AM);

IS_LARGE_ENOUGH(ours::WorkerParameters, ucp_worker_params_t);
SAME_FIELD(ours::WorkerParameters, mask, ucp_worker_params_t, field_mask);
SAME_FIELD(ours::WorkerParameters, thread_mode, ucp_worker_params_t, thread_mode);
SAME_VALUE(ours::WorkerParameters::kHasThreadMode, UCP_WORKER_PARAM_FIELD_THREAD_MODE);
SAME_VALUE(ours::WorkerParameters::kSerialized, UCS_THREAD_MODE_SERIALIZED);

IS_LARGE_ENOUGH(ours::EndpointParameters, ucp_ep_params_t);
SAME_FIELD(ours::EndpointParameters, mask, ucp_ep_params_t, field_mask);
SAME_FIELD(ours::EndpointParameters, address, ucp_ep_params_t, address);
SAME_FIELD(ours::EndpointParameters, error_mode, ucp_ep_params_t, err_mode);
static_assert(offsetof(ours::EndpointParameters, on_error) ==
              offsetof(ucp_ep_params_t, err_handler));
static_assert(offsetof(ours::EndpointParameters, on_error_argument) ==
              offsetof(ucp_ep_params_t, err_handler) + offsetof(ucp_err_handler_t, arg));
SAME_VALUE(ours::EndpointParameters::kHasAddress, UCP_EP_PARAM_FIELD_REMOTE_ADDRESS);
SAME_VALUE(ours::EndpointParameters::kHasErrorMode, UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE);
SAME_VALUE(ours::EndpointParameters::kHasErrorHandler, UCP_EP_PARAM_FIELD_ERR_HANDLER);
SAME_VALUE(ours::EndpointParameters::kErrorsOfPeer, UCP_ERR_HANDLING_MODE_PEER);

IS_LARGE_ENOUGH(ours::HandlerParameters, ucp_am_handler_param_t);
SAME_FIELD(ours::HandlerParameters, mask, ucp_am_handler_param_t, field_mask);
SAME_FIELD(ours::HandlerParameters, id, ucp_am_handler_param_t, id);
SAME_FIELD(ours::HandlerParameters, flags, ucp_am_handler_param_t, flags);
SAME_FIELD(ours::HandlerParameters, function, ucp_am_handler_param_t, cb);
SAME_FIELD(ours::HandlerParameters, argument, ucp_am_handler_param_t, arg);
SAME_VALUE(ours::HandlerParameters::kHasId, UCP_AM_HANDLER_PARAM_FIELD_ID);
SAME_VALUE(ours::HandlerParameters::kHasFlags, UCP_AM_HANDLER_PARAM_FIELD_FLAGS);
SAME_VALUE(ours::HandlerParameters::kHasFunction, UCP_AM_HANDLER_PARAM_FIELD_CB);
SAME_VALUE(ours::HandlerParameters::kHasArgument, UCP_AM_HANDLER_PARAM_FIELD_ARG);
SAME_VALUE(ours::HandlerParameters::kWholeMessages, UCP_AM_FLAG_WHOLE_MSG);

IS_LARGE_ENOUGH(ours::MemoryParameters, ucp_mem_map_params_t);
SAME_FIELD(ours::MemoryParameters, mask, ucp_mem_map_params_t, field_mask);
SAME_FIELD(ours::MemoryParameters, address, ucp_mem_map_params_t, address);
SAME_FIELD(ours::MemoryParameters, length, ucp_mem_map_params_t, length);
SAME_VALUE(ours::MemoryParameters::kHasAddress, UCP_MEM_MAP_PARAM_FIELD_ADDRESS);
SAME_VALUE(ours::MemoryParameters::kHasLength, UCP_MEM_MAP_PARAM_FIELD_LENGTH);

IS_LARGE_ENOUGH(ours::RequestParameters, ucp_request_param_t);
SAME_FIELD(ours::RequestParameters, mask, ucp_request_param_t, op_attr_mask);
SAME_FIELD(ours::RequestParameters, flags, ucp_request_param_t, flags);
SAME_FIELD(ours::RequestParameters, on_sent, ucp_request_param_t, cb);
SAME_FIELD(ours::RequestParameters, datatype, ucp_request_param_t, datatype);
SAME_FIELD(ours::RequestParameters, user_data, ucp_request_param_t, user_data);
SAME_FIELD(ours::RequestParameters, memory, ucp_request_param_t, memh);
SAME_VALUE(ours::RequestParameters::kHasCallback, UCP_OP_ATTR_FIELD_CALLBACK);
SAME_VALUE(ours::RequestParameters::kHasUserData, UCP_OP_ATTR_FIELD_USER_DATA);
SAME_VALUE(ours::RequestParameters::kHasFlags, UCP_OP_ATTR_FIELD_FLAGS);
SAME_VALUE(ours::RequestParameters::kHasMemory, UCP_OP_ATTR_FIELD_MEMH);
SAME_VALUE(ours::RequestParameters::kCompletesFast, UCP_OP_ATTR_FLAG_FAST_CMPL);
SAME_VALUE(ours::RequestParameters::kEager, UCP_AM_SEND_FLAG_EAGER);
SAME_VALUE(ours::RequestParameters::kForceClose, UCP_EP_CLOSE_FLAG_FORCE);

IS_LARGE_ENOUGH(ours::ComponentAttributes, uct_component_attr_t);
SAME_FIELD(ours::ComponentAttributes, mask, uct_component_attr_t, field_mask);
SAME_FIELD(ours::ComponentAttributes, name, uct_component_attr_t, name);
SAME_FIELD(ours::ComponentAttributes, num_resources, uct_component_attr_t, md_resource_count);
SAME_VALUE(ours::ComponentAttributes::kHasName, UCT_COMPONENT_ATTR_FIELD_NAME);
SAME_VALUE(ours::ComponentAttributes::kHasNumResources, UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT);

// Functions take as many arguments of the same sizes.
template <typename Ours, typename Theirs>
struct AreAlike : std::false_type {};
template <typename R, typename... A, typename S, typename... B>
struct AreAlike<R (*)(A...), S (*)(B...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(A) != sizeof...(B) || std::is_void_v<R> != std::is_void_v<S>) {
      return false;
    } else {
      return ((sizeof(A) == sizeof(B)) && ...);
    }
  }();
};
#define SAME_FUNCTION(NAME) \
  static_assert(AreAlike<decltype(ours::Functions::NAME), decltype(&ucp_##NAME)>::value)

SAME_FUNCTION(get_version);
SAME_FUNCTION(config_read);
SAME_FUNCTION(config_modify);
SAME_FUNCTION(config_release);
SAME_FUNCTION(init_version);
SAME_FUNCTION(worker_create);
SAME_FUNCTION(worker_get_address);
SAME_FUNCTION(worker_release_address);
SAME_FUNCTION(worker_get_efd);
SAME_FUNCTION(worker_arm);
SAME_FUNCTION(worker_progress);
SAME_FUNCTION(worker_set_am_recv_handler);
SAME_FUNCTION(worker_destroy);
SAME_FUNCTION(cleanup);
SAME_FUNCTION(ep_create);
SAME_FUNCTION(ep_close_nbx);
SAME_FUNCTION(am_send_nbx);
SAME_FUNCTION(mem_map);
SAME_FUNCTION(mem_unmap);
SAME_FUNCTION(rkey_pack);
SAME_FUNCTION(rkey_buffer_release);
SAME_FUNCTION(ep_rkey_unpack);
SAME_FUNCTION(rkey_destroy);
SAME_FUNCTION(put_nbx);
SAME_FUNCTION(ep_flush_nbx);
SAME_FUNCTION(request_free);

#define SAME_COMPONENT_FUNCTION(NAME) \
  static_assert(AreAlike<decltype(ours::ComponentFunctions::NAME), decltype(&uct_##NAME)>::value)

SAME_COMPONENT_FUNCTION(query_components);
SAME_COMPONENT_FUNCTION(component_query);
SAME_COMPONENT_FUNCTION(release_component_list);
