"""Make a run public: commit the manifest, promote its files, sweep what is old."""
