#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tnt/comm/communicator/gatherer.hpp"
#include "tnt/comm/communicator/group_object.hpp"
#include "tnt/comm/reducer/gradient_reducer.hpp"

namespace tnt::comm::tests {

/// Something that ranks create together.
struct CreatedObject {
  std::string title;                             ///< in messages
  std::function<void(Runtime&)> create_and_use;  ///< on all ranks of the job
};

inline float sum_of_ones(Group& group) {
  float value = 1;
  group
      .start({.kind = CollectiveKind::allreduce,
              .in = &value,
              .out = &value,
              .count = 1,
              .dtype = DType::float32,
              .op = ReduceOp::sum})
      ->wait(0);
  return value;
}

/// One of each kind.
inline const std::vector<CreatedObject>& created_objects() {
  static const std::vector<CreatedObject> objects = {
      {"group 'again'",
       [](Runtime& runtime) {
         const auto group = Group::create(runtime, runtime.world()->ranks(), "again");
         EXPECT_EQ(sum_of_ones(*group), group->size());
       }},
      {"GradientReducer 'gradients' of group 'world'",
       [](Runtime& runtime) {
         const FusionPlan plan({{"kernel", DType::float32, 3}, {"bias", DType::float32, 50000}}, 0);
         GradientReducer reducer(runtime.world(), plan, "gradients");
         std::vector<float> data(50000, 1);
         for (std::size_t i = 0; i < 2; ++i) reducer.start(i, data.data(), 1);
         for (std::size_t i = 0; i < 2; ++i) reducer.finish(i, data.data());
         EXPECT_EQ(data.back(), runtime.world()->size());
       }},
      {"Gatherer 'rows' of group 'world'",
       [](Runtime& runtime) {
         Gatherer gatherer(runtime.world(), "rows");
         gatherer.start("row", 3);
         EXPECT_EQ(gatherer.wait().size(), runtime.world()->ranks().size());
         std::string rows(3 * runtime.world()->ranks().size(), ' ');
         gatherer.finish(rows.data());
       }},
      {"an array of 4096 bytes in shared memory of group 'world'",
       [](Runtime& runtime) {
         const SharedArray array(*runtime.world(), 4096);
         EXPECT_EQ(array.data()[4095], std::byte{0});
       }},
  };
  return objects;
}

}  // namespace tnt::comm::tests
