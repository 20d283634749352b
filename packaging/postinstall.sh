#!/bin/sh
# deb: "configure" and the earlier version, if any. rpm: the number of installed versions.
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
systemctl try-restart opportunity.target # after an upgrade, all services that run
