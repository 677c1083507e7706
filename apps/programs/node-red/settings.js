// HASH is that of the password of the suite.
module.exports = {
    uiHost: '127.0.0.1',
    uiPort: Number(process.env.PORT),
    flowFile: 'flows.json',
    credentialSecret: 'a-secret-of-the-suite',
    adminAuth: {
        type: 'credentials',
        users: [{ username: 'anna', password: process.env.PASSWORD_HASH, permissions: '*' }],
    },
    telemetry: { enabled: false, updateNotification: false },
    editorTheme: { tours: false, projects: { enabled: false } },
    externalModules: { palette: { allowInstall: false } },
    logging: { console: { level: 'info' } },
};
