"""Several labels per item, and votes that say less than a class; the data are `crowdwise.data.label_sets.LabelSets`."""
