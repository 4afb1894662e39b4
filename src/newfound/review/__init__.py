"""The classes of a finished run under review: renamed, merged, split, exported, and shown on a page."""
