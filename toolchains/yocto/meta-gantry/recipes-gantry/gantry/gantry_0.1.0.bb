SUMMARY = "Runs neural networks that gantry compiled"
DESCRIPTION = "The board's server, which workstations compile for, run on and measure, and the runtime for applications."
SECTION = "libs"
LICENSE = "Apache-2.0"
LIC_FILES_CHKSUM = "file://LICENSE;md5=3b83ef96387f14655fc854ddc3c6bd57"

DEPENDS = "asio flatbuffers flatbuffers-native openssl"

inherit cmake externalsrc systemd useradd

# The checkout that this layer lies in.
EXTERNALSRC = "${@os.path.abspath(os.path.join(d.getVar('THISDIR'), '..', '..', '..', '..', '..'))}"

# Yocto gathers licences itself.
EXTRA_OECMAKE = " \
    -DGANTRY_BUILD_HOST=OFF \
    -DGANTRY_BUILD_TESTS=OFF \
    -DGANTRY_BUILD_EXAMPLES=OFF \
    -DGANTRY_LICENCE_FOLDER= \
"

SERVICE_FILES = "${S}/toolchains/package/debian"
do_install:append() {
    install -D -m 0644 ${SERVICE_FILES}/gantry-device.service ${D}${systemd_system_unitdir}/gantry-device.service
    install -D -m 0644 ${SERVICE_FILES}/gantry-device.tmpfiles ${D}${nonarch_libdir}/tmpfiles.d/gantry-device.conf
    install -D -m 0644 ${SERVICE_FILES}/gantry-device.default ${D}${sysconfdir}/default/gantry-device
    install -d -m 0700 ${D}${sysconfdir}/gantry/keys
}

PACKAGES =+ "gantry-device libgantry-runtime"
FILES:gantry-device = " \
    ${bindir}/gantry-device \
    ${systemd_system_unitdir}/gantry-device.service \
    ${nonarch_libdir}/tmpfiles.d/gantry-device.conf \
    ${sysconfdir}/default/gantry-device \
    ${sysconfdir}/gantry \
"
CONFFILES:gantry-device = "${sysconfdir}/default/gantry-device"
FILES:libgantry-runtime = "${libdir}/libgantry_runtime.so.*"
RDEPENDS:${PN}-dev = "libgantry-runtime (= ${EXTENDPKGV})"

# Off until an administrator has put a key into /etc/gantry/keys.
SYSTEMD_PACKAGES = "gantry-device"
SYSTEMD_SERVICE:gantry-device = "gantry-device.service"
SYSTEMD_AUTO_ENABLE:gantry-device = "disable"

# The server becomes this user as soon as it has read its keys.
USERADD_PACKAGES = "gantry-device"
USERADD_PARAM:gantry-device = "--system --user-group --no-create-home --home-dir /var/cache/gantry --shell /sbin/nologin gantry"
