package api

// TermsVersion is the version of the terms of use in this release: their date. An operator who publishes other terms configures
// another version.
const TermsVersion = "2026-11-22"
