package api

// TermsVersion is the version of the terms of use that this release contains, the date on which they were written. An operator
// who publishes other terms sets another version.
const TermsVersion = "2026-11-22"
