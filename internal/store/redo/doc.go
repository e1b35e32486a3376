// Package redo is a log in front of a database: what was acknowledged and may not
// be in the database yet.
//
// A commit of a database writes every page that it touched. A record of this log
// is one write of what is new, to a place that the file system need not look
// for: it is on the disk several times sooner, and the database follows when it
// likes, many records at a time. After a crash the records that the database
// does not have are read back, in order.
//
// The file is a ring of whole blocks. A record is a header, its payload, and a
// checksum over both; it begins at a block and does not go around the end.
// Records are numbered. The numbers belong to an epoch, which the database knows
// and which is chosen anew whenever a log is opened for writing: records of
// another epoch, such as those of a database that was replaced by a backup, do
// not count. The epoch is random also because payloads hold what strangers sent,
// who must not be able to write what looks like a record.
//
// The first block says whose log it is and how far it was acknowledged, see [Head].
// The second costs no wait: it is written to the page cache after each record, and so
// outlives the process but maybe not a loss of power.
package redo
