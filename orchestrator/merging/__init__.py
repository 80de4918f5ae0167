"""Run folders of one configuration made into one."""
