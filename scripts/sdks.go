// Command sdks writes the packages of the SDKs into the folder that it is given, at the paths below
// /sdk/ at which every installation serves them.
package main

import (
	"log"
	"os"
	"path/filepath"

	"opportunity.internal/sdk"
)

func main() {
	archives, err := sdk.Archives()
	if err != nil {
		log.Fatal(err)
	}
	for name, content := range archives {
		path := filepath.Join(os.Args[1], filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // for everyone, as a release is
			log.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil { //nolint:gosec // see above
			log.Fatal(err)
		}
	}
}
