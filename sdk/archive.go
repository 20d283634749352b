package sdk

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"
)

// npmTarball returns the package that `npm install URL` installs.
func npmTarball() ([]byte, error) {
	all, err := tree(files, "typescript", "package")
	if err != nil {
		return nil, err
	}
	if all, err = withLicense(all, "package/LICENSE"); err != nil {
		return nil, err
	}
	return tarred(all)
}

// pythonWheel returns the package that `pip install URL` installs; see the binary distribution
// format of PyPA.
func pythonWheel() ([]byte, error) {
	all, err := tree(files, "python/opportunity_data", "opportunity_data")
	if err != nil {
		return nil, err
	}
	metadata, err := pythonMetadata()
	if err != nil {
		return nil, err
	}
	info := "opportunity_data-" + Version + ".dist-info/"
	wheel := "Wheel-Version: 1.0\nGenerator: opportunity\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
	all = append(all, file{info + "METADATA", metadata}, file{info + "WHEEL", []byte(wheel)})
	if all, err = withLicense(all, info+"LICENSE"); err != nil {
		return nil, err
	}
	var record strings.Builder
	for _, f := range all {
		sum := sha256.Sum256(f.content)
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", f.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(f.content))
	}
	record.WriteString(info + "RECORD,,\n")
	return zipped(append(all, file{info + "RECORD", []byte(record.String())}))
}

// pythonSource returns the source distribution that PyPI wants beside the wheel; see PEP 517.
func pythonSource() ([]byte, error) {
	const folder = "opportunity_data-" + Version
	all, err := tree(files, "python", folder)
	if err != nil {
		return nil, err
	}
	metadata, err := pythonMetadata()
	if err != nil {
		return nil, err
	}
	if all, err = withLicense(append(all, file{folder + "/PKG-INFO", metadata}), folder+"/LICENSE"); err != nil {
		return nil, err
	}
	return tarred(all)
}

// pythonMetadata returns the core metadata of PyPA, which end with the README.
func pythonMetadata() ([]byte, error) {
	readme, err := files.ReadFile("python/README.md")
	metadata := "Metadata-Version: 2.1\nName: opportunity-data\nVersion: " + Version +
		"\nSummary: Client of the Opportunity Data API\nLicense: Apache-2.0\nRequires-Python: >=3.11\n" +
		"Provides-Extra: proof\nRequires-Dist: cryptography>=38; extra == 'proof'\nDescription-Content-Type: text/markdown\n\n"
	return append([]byte(metadata), readme...), err
}

// goModule returns the files of the module proxy protocol for a module by their path below /sdk/:
// go/ is the address for GOPROXY.
func goModule(module string, from fs.FS) (map[string][]byte, error) {
	const version = "v" + Version
	all, err := tree(from, ".", module+"@"+version)
	if err != nil {
		return nil, err
	}
	var mod []byte
	for i := range all {
		if all[i].name == module+"@"+version+"/go.mod" {
			all[i].content = released(all[i].content)
			mod = all[i].content
		}
	}
	if all, err = withLicense(all, module+"@"+version+"/LICENSE"); err != nil {
		return nil, err
	}
	archive, err := zipped(all)
	if err != nil {
		return nil, err
	}
	info, err := json.Marshal(map[string]any{"Version": version, "Time": epoch.Format(time.RFC3339)})
	if err != nil {
		return nil, err
	}
	at := "go/" + module + "/@"
	return map[string][]byte{
		at + "latest":                 info,
		at + "v/list":                 []byte(version + "\n"),
		at + "v/" + version + ".info": info,
		at + "v/" + version + ".mod":  mod,
		at + "v/" + version + ".zip":  archive,
	}, nil
}

// released returns a go.mod that requires the released version of the SDK in place of the one in
// this repository: go install rejects a module with a replacement.
func released(mod []byte) []byte {
	mod = bytes.ReplaceAll(mod, []byte(Module+" v0.0.0"), []byte(Module+" v"+Version))
	return bytes.ReplaceAll(mod, []byte("\nreplace "+Module+" => ../go\n"), nil)
}

func tarred(all []file) ([]byte, error) {
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	archive := tar.NewWriter(compressed)
	for _, f := range all {
		header := &tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.content)), ModTime: epoch,
			Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := errors.Join(archive.Close(), compressed.Close())
	return out.Bytes(), err
}

func zipped(all []file) ([]byte, error) {
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	for _, f := range all {
		w, err := archive.CreateHeader(&zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: epoch})
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := archive.Close()
	return out.Bytes(), err
}
