"""How fast the element-wise loops of tnt-comm are, as each C++ compiler compiles them."""
