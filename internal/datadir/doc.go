// Package datadir is the data directory of a server: the keys beside the database,
// which belong together, the backup of all files, and how to go on when some are lost.
package datadir
