"""What users call: methods of `tnt.Model`, `tnt.function`, `tnt.data.distribute`, `tnt.explain`."""
