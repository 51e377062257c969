#include "tnt/keras/call_label.hpp"

namespace tnt::keras {

// Such as " (3, 2)", and "" for a scalar.
std::string CallLabel::text_of_shape(const TF_Tensor* tensor, int first_dim) {
  std::string text;
  for (int dim = first_dim; dim < TF_NumDims(tensor); ++dim) {
    text += (text.empty() ? " (" : ", ") + std::to_string(TF_Dim(tensor, dim));
  }
  return text.empty() ? text : text + ")";
}

}  // namespace tnt::keras
