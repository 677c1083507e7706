// A shop that knows its visitors only in the memory of one process, as many do.
const express = require('express');
const session = require('express-session');

const shop = express();
shop.use(session({ secret: 'a secret of the suite', resave: false, saveUninitialized: false }));
shop.use(express.urlencoded({ extended: false }));
shop.post('/login', (request, response) => {
    request.session.name = request.body.name;
    response.send('hello ' + request.body.name);
});
shop.get('/me', (request, response) => response.send((request.session.name ?? 'nobody') + ' at ' + process.env.PORT));
shop.listen(Number(process.env.PORT), '127.0.0.1');
