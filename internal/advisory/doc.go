// Package advisory finds known vulnerabilities in locked packages. It reads advisories in the OSV format
// from a file, a directory or a zip archive of the operator, as osv.dev publishes one for each
// ecosystem. It asks nobody over the network.
//
// A package is affected if an advisory lists its version, or if the version lies in one of its ranges.
// Where a version or a bound cannot be read, the package counts as affected. Ranges of commits are not
// looked at, nor is whether a tool uses what is vulnerable.
package advisory
