"""ResNets and EfficientNets on ImageNet: architectures, data, schedules, and the trainer."""
