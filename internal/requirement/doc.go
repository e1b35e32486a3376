// Package requirement reads the packages that tools need: from a Python index (PEP 508)
// and from an npm registry (semver). It is pure: it never asks an index.
//
// A [Set] comes from strings ([Parse]), from a requirements file
// ([ReadRequirements]), from pyproject.toml ([ReadPyproject]), from the metadata
// in a script ([ReadScript], PEP 723) or from package.json ([ReadPackageJSON]).
// [Merge] puts several together, [Set.Digest] names the result.
//
// # What is promised
//
//   - A requirement is a name with constraints, and nothing else. Options, URLs,
//     paths, aliases, shell and anything that is not printable ASCII are refused,
//     and the error says where they stand. It holds no text that was not accepted.
//   - [Pip.String] and [NPM.String] write the parsed requirement, never the original
//     text. So an installer reads exactly what was checked here.
//   - A requirement that was written is accepted again and is written the same.
//   - Sizes and counts are bounded: [MaxCount], [MaxLength], [MaxFile].
//
// The installer decides whether versions exist that fit together. Package layer reports
// its refusal and says who asked for what.
//
// [MissingModule] goes the other way: from a failed import to the package that
// would provide it.
package requirement
