"""The files of mig-parted and of its hooks, from text to values; never whether GPUs can have a layout."""
