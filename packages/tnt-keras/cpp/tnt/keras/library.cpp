// Table of contents: what happens when TensorFlow loads the library.
#include "tnt/keras/ops.hpp"

namespace {

// tf.load_op_library wraps every operation that is registered while the library is being loaded.
__attribute__((constructor)) void register_all() {
  tnt::keras::register_reduce_ops();
  tnt::keras::register_device_reduce_ops();
  tnt::keras::register_gather_ops();
  tnt::keras::register_broadcast_ops();
  tnt::keras::register_allreduce_op();
  tnt::keras::register_combine_ops();
  tnt::keras::register_draw_ops();
}

}  // namespace
