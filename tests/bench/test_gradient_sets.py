"""The gradients that are summed are those of the published architectures."""

from benchmarks.allreduce.gradient_sets import resnet50, transformer_big


def test_resnet50_has_its_tensors_and_parameters():
    # 53 convolutions with scale and offset, kernel and bias of the dense layer.
    assert len(resnet50()) == 53 * 3 + 2 == 161
    assert sum(resnet50()) == 25_557_032


def test_transformer_big_has_the_parameters_of_its_formula():
    width, inner, layers, vocabulary = 1024, 4096, 6, 33708
    attention = 4 * width**2 + 2 * width
    feed_forward = 2 * width * inner + inner + width + 2 * width
    encoder = layers * (attention + feed_forward) + 2 * width
    decoder = layers * (2 * attention + feed_forward) + 2 * width
    assert sum(transformer_big()) == vocabulary * width + encoder + decoder
    assert 208e6 < sum(transformer_big()) < 213e6
