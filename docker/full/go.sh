#!/usr/bin/env bash
# Go with gopls, dlv, golangci-lint, staticcheck and gofumpt.
# shellcheck source=docker/full/common.sh
. /docker/full/common.sh

say "Go"
apt golang-go
tool() {
    GOBIN=/usr/local/bin GOTOOLCHAIN=$GO_TOOLCHAIN go install "$1" || unavailable "$1"
}
if has golang-go 1.26; then apt gopls delve; else
    tool "golang.org/x/tools/gopls@$GOPLS_VERSION"
    tool "github.com/go-delve/delve/cmd/dlv@$DELVE_VERSION"
fi
# Go checks what it downloads against its public checksum database.
tool "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$GOLANGCI_LINT_VERSION"
tool "honnef.co/go/tools/cmd/staticcheck@$STATICCHECK_VERSION"
tool "mvdan.cc/gofumpt@$GOFUMPT_VERSION"
if has shfmt 3.8; then apt shfmt; else tool "mvdan.cc/sh/v3/cmd/shfmt@$SHFMT_VERSION"; fi
tool "helm.sh/helm/v3/cmd/helm@$HELM_VERSION"
