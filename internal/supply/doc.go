// Package supply gives tools the packages that they need: it finds the installers
// of this machine, runs them in a sandbox whose only way out leads to the package
// index, and keeps the layers open that calls use.
//
//	needs ──► [Supply.Lock] ──► exact packages, with hashes (kept with the version)
//	locks ──► [Supply.Open] ──► layers, installed if need be ──► executor.Request
//
// # What is promised
//
//   - Installing happens in the sandbox of tools: no file of the host but the
//     interpreter's, no address but those of the index, limits, a deadline. Where
//     the sandbox cannot confine the network or the files, nothing is installed
//     that runs code of the packages.
//   - The index, its credentials and the proxy before it are known to installers
//     only. Errors and progress never hold them.
//   - A layer stays as long as a call or a sandbox that is kept ready uses it.
//
// # Which installer?
//
// For Python that is uv if it is on the path, else pip: the interpreter's own, or
// the wheel that comes with ensurepip. Config.Installer can name one; uv is then
// fetched from the index, into a layer, if it is not on the path. For Node it is
// npm.
package supply
