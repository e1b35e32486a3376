// Package requirement reads what tools may say that they need: packages from a
// Python index (PEP 508) and from an npm registry (semver). It is pure: nothing
// here looks into an index.
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
//   - What comes out is written anew from what was understood: [Pip.String] and
//     [NPM.String] never hold a character that was merely passed on. So an
//     installer that reads it sees what was checked here.
//   - What was accepted once is accepted again and comes out the same.
//   - Sizes and counts are bounded: [MaxCount], [MaxLength], [MaxFile].
//
// Whether versions exist that fit, and fit together, is for the installer to say:
// package layer reports its refusal with who asked for what.
//
// [MissingModule] goes the other way: from a failed import to the package that
// would provide it.
package requirement
